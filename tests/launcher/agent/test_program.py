"""A target inside its rank: what a script or a function finds is what Python itself would have given it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from launcher.distributor import Distributor
from launcher.errors import RankFailed
from launcher.runs import paths

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark")]


def output(job_folder: Path, rank: int = 0) -> str:
    return paths.log_file(job_folder, 0, rank, paths.STDOUT).read_text()


def test_a_script_is_main_for_spawn_pickle_and_threads(targets: Path) -> None:
    job = Distributor(1).start(str(targets / "main_module.py"))
    seen = job.result()

    assert [2, 4] == seen["spawned"]
    assert 3 == seen["pickled"]
    assert seen["main"]
    assert 4 == seen["point"].x  # a class of the script's own, carried by value
    assert "still here 2 True\n" == output(job.folder)


@pytest.mark.parametrize("tool", ["python", "rankdeck"])
def test_a_linked_script_imports_from_beside_its_file(tmp_path: Path, tool: str) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "neighbour.py").write_text("WORD = 'found'\n")
    script = tmp_path / "project" / "train.py"
    script.write_text("import sys, neighbour\nprint(neighbour.WORD, __file__, sys.argv)\n")
    link = tmp_path / "train.py"
    link.symlink_to(script)

    if tool == "python":
        printed = subprocess.run([sys.executable, link], capture_output=True, text=True, check=True).stdout
    else:
        job = Distributor(1).start(str(link))
        job.result()
        printed = output(job.folder)
    assert f"found {link} ['{link}']\n" == printed


def test_scripts_may_patch_builtins_as_a_module(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("__builtins__.answer = 42\nimport launcher\nlauncher.publish(answer)\n")

    assert 42 == Distributor(1).run(str(script))


def test_exit_handlers_run_and_may_still_publish(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import atexit, launcher\natexit.register(launcher.publish, 'late')\n")

    assert "late" == Distributor(1).run(str(script))


def test_a_file_that_is_written_but_not_closed_is_flushed(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"open({str(tmp_path / 'out.txt')!r}, 'w').write('kept')\n")
    Distributor(1).run(str(script))

    assert "kept" == (tmp_path / "out.txt").read_text()


def test_a_function_of_a_file_finds_its_neighbours(targets: Path) -> None:
    seen = Distributor(1).run(f"{targets}/functions.py:where")

    assert {
        "name": "functions",
        "file": str(targets / "functions.py"),
        "path": str(targets),
        "argv": [str(targets / "functions.py")],
    } == seen


def test_a_function_of_a_module_is_imported_from_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "train.py").write_text(
        "import os\ndef fn(): os.chdir('/'); import package.late\n"
    )
    (tmp_path / "package" / "late.py").touch()

    assert Distributor(1, workdir=tmp_path).run("package.train:fn") is None


def test_a_file_named_like_a_standard_module_is_itself(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("def fn(): return 'mine'\n")

    assert "mine" == Distributor(1).run(f"{tmp_path}/json.py:fn")


def test_a_module_that_only_the_caller_can_find_is_found_by_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here_for_a_test.py").write_text("def fn(x): return x + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    import only_here_for_a_test  # type: ignore[import-not-found]

    assert 4 == Distributor(1).run(only_here_for_a_test.fn, 3)


def test_a_rank_that_forks_reports_only_once(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import os, launcher\n"
        "if os.fork() == 0:\n    launcher.publish('the child')\n    os._exit(0)\n"
        "os.wait()\nlauncher.publish('the rank')\n"
    )

    assert "the rank" == Distributor(1).run(str(script))


def test_a_function_that_raises_is_told_in_the_users_frames(targets: Path) -> None:
    with pytest.raises(RankFailed) as caught:
        Distributor(1).run(f"{targets}/functions.py:broken")

    frames = [line.strip() for line in (caught.value.traceback or "").splitlines() if "File" in line]
    assert 1 == len(frames)
    assert frames[0].startswith(f'File "{targets}/functions.py", line ')
