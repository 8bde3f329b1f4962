"""Files of a run folder are opened in one way: no link, no FIFO, no device, and nothing without end."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.runs import files
from launcher.runs.files import NotPlain
from tests.spoiling import make_socket

pytestmark = pytest.mark.timeout(20)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "20260101-120000-000abc"
    (folder / "logs" / "0").mkdir(parents=True)
    (folder / "events.jsonl").write_bytes(b"facts\n")
    (folder / "logs" / "0" / "00000.out").write_bytes(b"output\n")
    return folder


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    (outside / "0").mkdir(parents=True)
    (outside / "secret").write_text("hunter2")
    (outside / "0" / "00000.out").write_text("hunter2")
    return outside


SPOILED: dict[str, Callable[[Path], None]] = {
    "a FIFO": os.mkfifo,
    "a symbolic link": lambda path: path.symlink_to("../outside/secret"),
    "a loop": lambda path: path.symlink_to(path),
    "zeros": lambda path: path.symlink_to("/dev/zero"),
    "a folder": Path.mkdir,
    "a socket": make_socket,
}


def test_what_is_there_is_read(run: Path) -> None:
    assert b"facts\n" == files.read_whole(run, run / "events.jsonl")
    with files.open_file(run, run / "logs/0/00000.out") as file:
        assert b"output\n" == file.read()
    assert 7 == files.stat_file(run, run / "logs/0/00000.out").st_size
    assert ["events.jsonl", "logs"] == files.names_in(run, run)
    assert ["events.jsonl", "logs/0/00000.out"] == [
        path.relative_to(run).as_posix() for path in files.files_below(run)
    ]


def test_what_is_not_there_is_said_as_always(run: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.read_whole(run, run / "spec.json")
    with pytest.raises(FileNotFoundError):
        files.open_descriptor(run, run / "samples" / "x.jsonl")
    assert [] == files.names_in(run, run / "samples")
    assert not files.is_file(run, run / "spec.json")


@pytest.mark.parametrize("kind", SPOILED)
@pytest.mark.parametrize("name", ["events.jsonl", "logs/0/00000.out"])
def test_only_a_regular_file_is_opened(run: Path, secret: Path, kind: str, name: str) -> None:
    path = run / name
    path.unlink()
    SPOILED[kind](path)

    for reading in (files.read_whole, files.open_descriptor, files.stat_file):
        with pytest.raises(NotPlain, match="is a "):
            reading(run, path)
    assert path not in list(files.files_below(run))


@pytest.mark.parametrize("folder", ["logs", "logs/0"])
def test_no_folder_on_the_way_may_be_a_link(run: Path, secret: Path, folder: str) -> None:
    (run / folder).rename(run / "away")
    (run / folder).symlink_to(secret if folder == "logs" else secret / "0")

    with pytest.raises(NotPlain):
        files.read_whole(run, run / "logs/0/00000.out")
    with pytest.raises(NotPlain):
        files.names_in(run, run / folder)
    assert not [path for path in files.files_below(run) if "logs" in path.parts]


def test_the_run_folder_itself_may_be_reached_through_a_link(run: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(run)

    assert b"facts\n" == files.read_whole(tmp_path / "link", tmp_path / "link" / "events.jsonl")


def test_nothing_outside_is_reached_by_name(run: Path, secret: Path) -> None:
    with pytest.raises(NotPlain, match="leads out"):
        files.read_whole(run, run / ".." / "outside" / "secret")
    with pytest.raises(ValueError, match="subpath"):
        files.read_whole(run, secret / "secret")


def test_what_is_read_whole_is_bounded(run: Path) -> None:
    os.truncate(run / "events.jsonl", files.MOST_BYTES)
    assert files.MOST_BYTES == len(files.read_whole(run, run / "events.jsonl"))

    os.truncate(run / "events.jsonl", files.MOST_BYTES + 1)
    with pytest.raises(NotPlain, match="larger than 16 MiB"):
        files.read_whole(run, run / "events.jsonl")


def test_no_descriptor_is_left(run: Path) -> None:
    os.mkfifo(run / "spec.json")
    before = len(os.listdir("/proc/self/fd"))

    for name in ("spec.json", "logs", "logs/0/00000.out", "gone/x", "events.jsonl/x"):
        try:
            files.read_whole(run, run / name)
        except OSError:
            continue
    assert before == len(os.listdir("/proc/self/fd"))


# --- nobody reads in another way

ROOT = Path(__file__).parents[3]
OPENS = {
    "open",
    "fdopen",
    "read_text",
    "read_bytes",
    "glob",
    "rglob",
    "iterdir",
    "listdir",
    "scandir",
    "walk",
}
DATA = ("run", "logs", "history", "cluster")
OTHERS = ("data/replay", "data/launch/rerun", "cli/output", "cli/show", "cli/history", "export/archive")
READERS = [
    *(ROOT / "launcher" / "runs").rglob("*.py"),
    *(ROOT / "launcher" / f"{name}.py" for name in ("job", "distributor")),
    *(path for part in DATA for path in (ROOT / "console" / "data" / part).glob("*.py")),
    *(ROOT / "console" / f"{name}.py" for name in (*OTHERS, "export/report")),
]
WRITERS = {
    "runs/files.py": {
        *("open_descriptor", "open_file", "names_in", "_files_below", "_opened", "_step"),
        *("opener", "write_whole", "__init__"),  # make files, and append to the run that is written
    },
    "runs/artifacts.py": {"_export"},  # into a folder of the user's
    "runs/writer.py": {"_refill"},  # the reserve of the run that is written
    "runs/samples.py": {"_thin", "_bound"},  # the same
    "runs/curves.py": {"_compact"},  # the same
    "runs/results.py": {"forget_results"},  # the same
    "runs/recovery.py": {"_may_be_dead"},  # names only
    "runs/catalog.py": {"run_ids", "sweep", "folder_bytes"},  # the folder of runs; sizes, of what is no link
    "runs/index.py": {"_connect"},  # the index, which is in no run
    "runs/status.py": {"process_start"},  # of a process
    "runs/provenance.py": {"_in_folder", "_version_in"},  # of installed packages
    "logs/book.py": {"new_file"},  # the file that a person saves a log in
    "cluster/spark_api.py": {"ask"},  # pages of Spark
    "export/archive.py": {
        "write_archive",
        "_add",
        "_temporary_folder",
        "_remove_stale",
        "_unpack_one",
    },  # the file and its scratch
}


def openings(path: Path) -> set[tuple[str, str]]:
    """Which functions of a module open or list something themselves, and by which call."""
    found = set()
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for node in ast.walk(function):
                called = node.func if isinstance(node, ast.Call) else None
                if isinstance(called, ast.Name) and called.id == "open":
                    found.add((function.name, "open"))
                if isinstance(called, ast.Attribute) and called.attr in OPENS:
                    found.add((function.name, ast.unparse(called)))
    return found


@pytest.mark.parametrize("path", READERS, ids=lambda path: "/".join(path.parts[-2:]))
def test_who_reads_a_run_opens_nothing_itself(path: Path) -> None:
    writing = WRITERS.get("/".join(path.parts[-2:]), set())
    assert set() == {(name, call) for name, call in openings(path) if name not in writing}
