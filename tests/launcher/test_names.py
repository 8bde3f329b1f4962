"""The library under its two names: the same modules; beside a `launcher` of the user's it is `rankdeck`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from launcher.backends.spark.launcher_zip import launcher_zip
from launcher.runs.reader import read_state
from tests.notebooks import notebook

ROOT = Path(__file__).parents[2]


def python(code: str, *path: Path, cwd: Path) -> str:
    """What a fresh interpreter prints; `path` comes first on its import path."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environ, check=False)
    assert 0 == done.returncode, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The library as a wheel installs it, and as executors get it: each a place to import from."""
    folder = tmp_path_factory.mktemp("names")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, capture_output=True, check=True)
    zipfile.ZipFile(next(folder.glob("*.whl"))).extractall(folder / "wheel")
    (folder / "executor.zip").write_bytes(launcher_zip())
    return {"wheel": folder / "wheel", "executor": folder / "executor.zip"}


@pytest.fixture
def owned(tmp_path: Path) -> Path:
    """A folder with a `launcher.py` of the user's own."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "launcher.py").write_text("WORD = 'mine'\n\n\nclass Thing:\n    pass\n")
    return folder


KINDS = ["wheel", "executor"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", ["launcher, rankdeck", "rankdeck, launcher"])
def test_both_names_are_the_same_modules(
    kind: str, order: str, places: dict[str, Path], tmp_path: Path
) -> None:
    code = (
        f"import {order}; from rankdeck.errors import RankFailed as a;"
        "from launcher.errors import RankFailed as b;"
        "import rankdeck.spec.job, launcher.spec.job;"
        "same = rankdeck.JobSpec is launcher.spec.job.JobSpec;"
        "print(a is b, rankdeck is launcher, same, launcher.__name__)"
    )

    assert "True True True launcher" == python(code, places[kind], cwd=tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_beside_a_launcher_of_the_users_it_is_there_as_rankdeck(
    kind: str, places: dict[str, Path], owned: Path
) -> None:
    code = (
        "import rankdeck, launcher; from rankdeck.agent import report;"
        "same = rankdeck.report is report.report;"
        "print(launcher.WORD, rankdeck.report.__module__, same, rankdeck.JobSpec.__name__)"
    )

    assert "mine rankdeck.agent.report True JobSpec" == python(code, owned, places[kind], cwd=owned)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["launcher", "rankdeck"])
def test_a_pickle_of_either_name_is_read_under_either(
    kind: str, name: str, places: dict[str, Path], owned: Path, tmp_path: Path
) -> None:
    made = (
        "import pickle, sys; import rankdeck; from rankdeck.spec.modes import Mode;"
        "data = pickle.dumps(Mode.LOCAL, 0);"
        f"data = data.replace(b'launcher.', b'{name}.').replace(b'rankdeck.', b'{name}.');"
        "from rankdeck.spec import pickles; print(pickles.loads(data) is Mode.LOCAL)"
    )

    assert "True" == python(made, places[kind], cwd=tmp_path)
    assert "True" == python(made, owned, places[kind], cwd=owned)


def test_a_pickle_of_the_users_own_launcher_is_theirs(places: dict[str, Path], owned: Path) -> None:
    code = (
        "import pickle, launcher; from rankdeck.spec import pickles;"
        "print(type(pickles.loads(pickle.dumps(launcher.Thing()))) is launcher.Thing)"
    )

    assert "True" == python(code, owned, places["wheel"], cwd=owned)


TRAIN = """
import launcher
import rankdeck


def train():
    rankdeck.report(step=3, total_steps=9)
    return launcher.WORD, rankdeck.__name__


if __name__ == "__main__":
    print(rankdeck.Distributor(num_processes=2).run(train))
"""


@pytest.mark.process
def test_a_training_beside_a_launcher_of_the_users_reports_and_returns(
    owned: Path, places: dict[str, Path], home: Path
) -> None:
    (owned / "train.py").write_text(TRAIN)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(owned), str(places["wheel"])])}
    done = subprocess.run(
        [sys.executable, "train.py"], cwd=owned, env=environ, capture_output=True, text=True, check=False
    )

    assert (0, "('mine', 'rankdeck')") == (done.returncode, done.stdout.strip()), done.stderr
    run = next((home / "runs").glob("*/events.jsonl")).parent
    assert 3 == read_state(run).ranks[0].step


@pytest.mark.process
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_script_may_use_either_name_and_so_may_its_children(
    method: str, tmp_path: Path, rankdeck: str
) -> None:
    (tmp_path / "train.py").write_text(
        "import multiprocessing\nimport rankdeck, launcher\n\n\n"
        "def child(n):\n    import rankdeck, launcher\n    return n, rankdeck is launcher\n\n\n"
        "if __name__ == '__main__':\n"
        f"    with multiprocessing.get_context('{method}').Pool(1) as pool:\n"
        "        print(pool.map(child, [1]), rankdeck is launcher)\n"
    )
    command = [rankdeck, "run", str(tmp_path / "train.py"), "-n", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (0, "[(1, True)] True") == (done.returncode, done.stdout.strip()[5:]), done.stdout + done.stderr


MODULE = """
from rankdeck import Distributor, report
import launcher


def train():
    report(step=3)
    return launcher.WORD, Distributor.__name__


if __name__ == "__main__":
    value = Distributor(2, output="none").run(lambda: (train(), Distributor.__module__))
    print(value)
"""
FOUND = "(('mine', 'Distributor'), 'rankdeck.distributor')"


@pytest.fixture
def crowded(owned: Path) -> Path:
    """A folder with a `launcher.py`, a `console.py` and a package of the user's own."""
    (owned / "console.py").write_text("raise SystemExit('this console is mine')\n")
    (owned / "package").mkdir()
    (owned / "package" / "train.py").write_text(MODULE)
    (owned / "train.py").write_text(MODULE)
    return owned


@pytest.mark.process
@pytest.mark.parametrize("words", [["train.py"], ["-m", "train"], ["-m", "package.train"]])
@pytest.mark.parametrize("kind", ["wheel", "installed"])
def test_a_program_imports_it_as_rankdeck_wherever_it_is(
    kind: str, words: list[str], crowded: Path, places: dict[str, Path]
) -> None:
    path = {"PYTHONPATH": os.fspath(places["wheel"])} if kind == "wheel" else {}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=crowded,
        env={**os.environ, **path},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (0, FOUND) == (done.returncode, done.stdout.strip()), done.stderr


@pytest.mark.process
@pytest.mark.parametrize("target", ["train.py:train", "package.train:train", "package/train.py:train"])
def test_so_does_a_rank(target: str, crowded: Path, rankdeck: str) -> None:
    (crowded / "package" / "launcher.py").write_text("WORD = 'mine'\n")
    command = [rankdeck, "run", target, "-n", "2"]
    done = subprocess.run(command, cwd=crowded, capture_output=True, text=True, check=False)

    assert (0, ["mine", "Distributor"]) == (done.returncode, json.loads(done.stdout)), done.stderr


@pytest.mark.process
def test_so_does_a_notebook(crowded: Path) -> None:
    with notebook(crowded) as book:
        book.run("from rankdeck import Distributor, report\nimport launcher")
        book.run("def train():\n    report(step=3)\n    return launcher.WORD, Distributor.__name__")
        ran = book.run("Distributor(2).run(lambda: (train(), Distributor.__module__))")
        assert FOUND == ran.value, ran.error
        book.run("%load_ext rankdeck.notebook")
        ran = book.run("%%ranks -n 2\ntrain(), Distributor.__module__")

    assert FOUND == ran.value, ran.error
