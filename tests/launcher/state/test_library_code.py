"""What is library code, by the paths of files."""

from __future__ import annotations

import pytest

from launcher.state.library_code import is_library, library_path
from launcher.state.tracebacks import raised_by_user


@pytest.mark.parametrize(
    ("file", "path"),
    [
        ("/x/site-packages/a.py", "a.py"),
        ("/usr/lib/python3/dist-packages/yaml/nodes.py", "yaml/nodes.py"),
        ("/usr/lib/python3.11/json/decoder.py", "json/decoder.py"),
        ("/opt/python/lib64/python3.12/queue.py", "queue.py"),
        ("<frozen importlib._bootstrap>", "importlib._bootstrap"),
        ("/opt/free/lib/python3.13t/queue.py", "queue.py"),
        ("/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", "pyspark/worker.py"),
        ("/opt/spark/python/lib/py4j-0.10.9.9-src.zip/py4j/protocol.py", "py4j/protocol.py"),
        ("/tmp/spark-1/launcher-9.zip/launcher/agent/report.py", "launcher/agent/report.py"),
    ],
)
def test_a_library_is_installed_or_pythons_or_comes_with_the_launcher(file: str, path: str) -> None:
    assert is_library(file)
    assert path == library_path(file)


@pytest.mark.parametrize(
    "file",
    [
        "/home/ada/lib/a.py", "<stdin>", "In[3]", "/w/mysite-packages/a.py", "", "/usr/src/app/train.py",
        "/tmp/spark-1/mine.zip/mine/steps.py", "/tmp/spark-1/mine.zip/launcher_of_mine.py",
    ],
)  # fmt: skip
def test_all_else_is_the_users(file: str) -> None:
    assert not is_library(file)


@pytest.mark.parametrize(("zipped", "by_user"), [("mine/steps.py", True), ("pyspark/worker.py", False)])
def test_a_raise_in_a_zip_of_the_users_is_theirs(zipped: str, by_user: bool) -> None:
    block = f'  File "/tmp/x.zip/{zipped}", line 3, in step\n    raise RuntimeError(text)\nRuntimeError: no'
    assert by_user == raised_by_user(block)
