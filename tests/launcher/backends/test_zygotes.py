"""Zygotes and the runs that use them: real processes, most without torch."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.agent.warm import starting, wanted
from launcher.agent.warm.starting import Started, ZygoteKind, kind_of
from launcher.backends import registry, zygotes
from launcher.backends.zygotes import KeptZygote, Need, Zygotes
from launcher.distributor import Distributor
from launcher.runs import paths
from tests import survivors
from tests.commands import until

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark")]

WHICH = "print(int('zygote' in open('/proc/self/cmdline').read()))\n"


@pytest.fixture
def pool() -> Iterator[Zygotes]:
    """A pool of one's own."""
    own = Zygotes(most=2, idle_s=600.0)
    yield own
    own.close()


def need(**environ: str) -> Need:
    """What a run without torch needs."""
    return Need(kind_of({**os.environ, **environ}, ()), ())


def settled(zygote: KeptZygote | None) -> KeptZygote:
    assert zygote is not None
    until(lambda: zygote.settled)
    return zygote


def output(script: Path, **options: object) -> str:
    """What a rank of a script prints."""
    job = Distributor(1, **options).start(str(script))  # type: ignore[arg-type]
    assert 0 == job.wait(60).exit_code, job.state.why
    return paths.log_file(job.folder, 0, 0, paths.STDOUT).read_text()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(WHICH)
    return path


def test_a_rank_is_a_fork_unless_that_is_not_wanted(script: Path) -> None:
    assert ["1\n", "0\n"] == [output(script), output(script, fresh=True)]
    assert "0\n" == output(script, env={"OMP_NUM_THREADS": "many"})


def test_an_edited_target_is_read_anew(script: Path) -> None:
    (script.parent / "helper.py").write_text("WORD = 1\n")
    script.write_text("import helper\nprint('a', helper.WORD)\n")
    before = output(script)
    (script.parent / "helper.py").write_text("WORD = 2\nMORE = 3\n")
    script.write_text("import helper\nprint('b', helper.WORD)\n")

    assert ["a 1\n", "b 2\n"] == [before, output(script)]


def test_runs_of_the_same_kind_share_one(pool: Zygotes) -> None:
    first = settled(pool.get(need()))

    assert first is pool.get(need())
    assert first is not pool.get(need(LD_BIND_NOW="1"))
    assert 2 == len(pool.describe())


def test_there_are_no_more_than_there_may_be(pool: Zygotes) -> None:
    kept = [settled(pool.get(need(PYTHONHASHSEED=str(number)))) for number in range(3)]

    assert [False, True, True] == [each.ready for each in kept]
    assert survivors.named(os.environ[survivors.MARK], "none") == []


def test_one_that_is_not_used_ends() -> None:
    pool = Zygotes(idle_s=0.0)
    zygote = settled(pool.get(need()))
    pid = zygote.describe()["pid"]
    pool.close_idle()

    assert [] == pool.describe()
    assert not Path(f"/proc/{pid}").exists()


def test_it_ends_with_its_owner(mark: str) -> None:
    code = (
        "from tests.launcher.backends.test_zygotes import *\n"
        "print(settled(Zygotes().get(need())).describe()['pid'], flush=True)\nos.kill(os.getpid(), 9)"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)

    pid = int(done.stdout)
    until(lambda: not Path(f"/proc/{pid}").exists())
    assert {} == survivors.gone(mark, within=5, engines=True)


def test_one_that_was_killed_is_replaced(script: Path) -> None:
    output(script)
    (before,) = registry.OWN.describe()
    os.kill(before["pid"], signal.SIGKILL)

    assert output(script) in ("0\n", "1\n")  # it may have been found dead only when it was asked
    assert "1\n" == output(script)
    (after,) = registry.OWN.describe()
    assert before["pid"] != after["pid"]


@pytest.mark.parametrize(
    ("text", "why"),
    [("print('hello')\n", "printed 'hello"), ("import os; os._exit(3)\n", "ended while it loaded")],
)
def test_an_import_that_a_fork_could_not_repeat_makes_it_unfit(
    pool: Zygotes, tmp_path: Path, text: str, why: str
) -> None:
    (tmp_path / "library.py").write_text(text)
    asked = Need(kind_of({**os.environ, "PYTHONPATH": str(tmp_path)}, ()), ("library",))
    zygote = settled(pool.get(asked))

    assert why in zygote.why
    assert pool.get(asked) is None  # and no other one is tried for a while


def test_a_library_that_has_changed_is_imported_anew(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wanted, "_FORKABLE", {"library"})
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "library.py").write_text("A = 1\n")
    env = {"PYTHONPATH": str(folder)}
    script.write_text(f"import library\nprint(library.A)\n{WHICH}")

    assert "1\n1\n" == output(script, env=env)
    (folder / "library.py").write_text("A = 'two'\n")
    # it may have ended by itself when the first run's agent did, and then this run has another one
    assert output(script, env=env) in ("two\n0\n", "two\n1\n")
    assert "two\n1\n" == output(script, env=env)


def test_a_run_does_not_wait_for_one_that_does_not_load(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zygotes, "PATIENCE_S", 0.2)
    folder = tmp_path / "slow"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import sys\nif 'zygote' in str(sys.orig_argv):\n    import threading; threading.Event().wait()\n"
    )

    assert "0\n" == output(script, env={"PYTHONPATH": str(folder)})


def test_many_launches_leave_nothing(script: Path, mark: str) -> None:
    output(script)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        assert "1\n" == output(script)

    until(lambda: before >= len(os.listdir("/proc/self/fd")))  # git may still run
    assert {} == survivors.gone(mark, within=5)


def test_a_head_start_is_taken_over(pool: Zygotes) -> None:
    kind = ZygoteKind(sys.executable, need().kind.environ, torch=False)
    pool.adopt(starting.start(kind, (), zygotes.ROOT))

    assert settled(pool.get(need())).ready
    assert 1 == len(pool.describe())


def test_a_head_start_is_taken_over_from_a_command_that_has_ended(pool: Zygotes, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        f"import os, time\nwhile not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)\n"
    )
    kind = kind_of({**os.environ, "PYTHONPATH": str(tmp_path)}, ())
    near, far = socket.socketpair()
    command = os.fork()
    if not command:
        started = starting.start(kind, (), zygotes.ROOT)
        socket.send_fds(far, [str(started.pid).encode()], [started.line.fileno()])
        os._exit(0)
    pid, (line, *_), _, _ = socket.recv_fds(near, 100, 1)
    os.waitpid(command, 0)
    near.close()
    far.close()
    pool.adopt(Started(kind, int(pid), socket.socket(fileno=line)))
    (tmp_path / "go").touch()

    assert settled(pool.get(Need(kind, ()))).ready
