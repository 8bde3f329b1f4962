"""What a target needs on its hosts, by its source or by its pickle; nothing is imported or loaded."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.request import Request
from launcher.spec.target_imports import imports_in, modules_in, target_imports

SOURCE = """
from __future__ import annotations
import os, numpy as np
import torch.distributed
from . import beside
from yaml.loader import Loader
try:
    import apex
except ImportError:
    apex = None
try:
    import needed_anyhow
except ValueError:
    pass
if TYPE_CHECKING:
    import typing_only
else:
    import at_run_time

class Model:
    import in_class
    def forward(self):
        import lazy_one
        async def inner():
            from lazy_two import x
"""


def request(folder: Path, source: str, **more: object) -> Request:
    script = folder / "train.py"
    script.write_text(source)
    spec = JobSpec(Target(TargetKind.SCRIPT, str(script)), workdir=str(folder), **more)  # type: ignore[arg-type]
    return Request(spec, environ={})


def test_imports_are_told_apart() -> None:
    always = {name for name, lazy in imports_in(SOURCE) if not lazy}
    lazy = {name for name, lazy in imports_in(SOURCE) if lazy}

    assert always == {
        "__future__",
        "os",
        "numpy",
        "torch",
        "yaml",
        "needed_anyhow",
        "at_run_time",
        "in_class",
    }
    assert lazy == {"lazy_one", "lazy_two"}


@given(st.text())
def test_any_text_has_some_imports_or_none(text: str) -> None:
    assert all(name for name, _ in imports_in(text))


def test_what_travels_is_not_needed_there(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import deep\n")
    (tmp_path / "package").mkdir()
    found = target_imports(
        request(tmp_path, "import mine, package, json, sent, other\n", py_files=("/x/sent.py",))
    )

    assert (found.needed, found.lazy, found.read) == (("deep", "other"), (), True)


def test_a_module_of_the_hosts_is_asked_for(tmp_path: Path) -> None:
    spec = JobSpec(Target(TargetKind.MODULE, "theirs.train"), workdir=str(tmp_path))

    assert target_imports(Request(spec, environ={})).needed == ("theirs",)


def test_a_program_that_is_no_python_imports_nothing(tmp_path: Path) -> None:
    spec = JobSpec(Target(TargetKind.PROGRAM, "/bin/true"), workdir=str(tmp_path))

    assert target_imports(Request(spec, environ={})).read is None


def test_a_source_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    spec = JobSpec(Target(TargetKind.SCRIPT, str(tmp_path / "gone.py")), workdir=str(tmp_path))
    found = target_imports(Request(spec, environ={}))

    assert found.needed == ()


def test_a_pickle_names_its_modules() -> None:
    table = np.zeros(2)

    def train() -> object:
        return np.sum(table), ast.parse

    found = set(modules_in(cloudpickle.dumps(train)))

    assert {"numpy", "ast"} <= found


@pytest.mark.parametrize("protocol", range(6))
def test_every_protocol_is_read(protocol: int) -> None:
    assert "pathlib" in set(modules_in(pickle.dumps(Path("/x"), protocol)))


@given(st.binary(max_size=200))
def test_any_bytes_name_some_modules_or_none(data: bytes) -> None:
    assert all(isinstance(name, str) for name in modules_in(data))
