"""Broken trainings, run for real: the right cause is found, or none, and every place tells it alike."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest

from launcher.diagnosis.wording import cause_text
from launcher.runs.reader import read_state
from launcher.state import events as ev
from tests import engines
from tests.broken.cases import UNKNOWN, Case, cases
from tests.commands import COMMAND, facts, last, rankdeck, runs, until
from tests.small_disk import small_disk

pytestmark = [pytest.mark.process, pytest.mark.takes(5)]

CASES = cases()
LIMIT_S = 120
SHM = "16m"
MEMORY = 1400 << 20
CGROUP = Path("/sys/fs/cgroup/memory")

Wrapped = tuple[list[str], dict[str, str]]
"""Words before the command, and variables for it."""


@contextmanager
def nothing(_: Path) -> Iterator[Wrapped]:
    yield [], {}


@contextmanager
def little_shm(_: Path) -> Iterator[Wrapped]:
    """A namespace in which /dev/shm is small. The run's engine starts in it, as its home is new."""
    mount = f"mount -t tmpfs -o size={SHM} tmpfs /dev/shm && exec " + '"$@"'
    words = ["unshare", "--mount", "sh", "-c", mount, "sh"]
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace can be made here")
    yield words, {}


@contextmanager
def little_disk(folder: Path) -> Iterator[Wrapped]:
    with small_disk(folder / "disk", 24 << 20) as disk:
        yield [], {"SMALL_DISK": str(disk)}


def _removed(group: Path) -> bool:
    """Whether a cgroup is gone, after what the engine left in it, as a zygote that ends, was moved out."""
    for pid in (group / "cgroup.procs").read_text().split():
        with suppress(ProcessLookupError):
            (CGROUP / "cgroup.procs").write_text(pid)
    with suppress(OSError):  # a process is on its way out
        group.rmdir()
    return not group.exists()


@contextmanager
def little_memory(folder: Path) -> Iterator[Wrapped]:
    """A cgroup with a memory limit, which the run's engine, agents and ranks share."""
    group = CGROUP / f"{folder.name}-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(MEMORY))
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here: {error}")
    try:
        yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"], {}
    finally:
        rankdeck("engine", "stop", "--force")
        until(lambda: _removed(group))


NEEDS: dict[str, Callable[[Path], AbstractContextManager[Wrapped]]] = {
    "": nothing,
    "shm": little_shm,
    "small-disk": little_disk,
    "cgroup": little_memory,
}


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home whose engine runs one training after another."""
    folder = tmp_path_factory.mktemp("home")
    yield folder
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANKDECK_HOME", str(folder))
        engines.end_all()


@pytest.fixture
def usual_engine(
    case: Case, shared_home: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """An engine that has run others, as a user's has; where the machine is made small, one that begins there.

    Ranks with torch are forks of a process that has it in both, but only the first run waits for its start.
    """
    with monkeypatch.context() as patch:
        if not case.needs:
            patch.setenv("RANKDECK_HOME", str(shared_home))
        yield


def start(case: Case, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the training to its end; it is the last run then."""
    known = runs()
    with NEEDS[case.needs](folder) as (words, variables):
        ended = subprocess.run(
            [*words, COMMAND, *case.command],
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=LIMIT_S,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            env={**os.environ, **variables},
            check=False,
        )
    assert len(runs()) == len(known) + 1, ended.stderr
    return ended


def found_in(run: Path) -> ev.CauseFound | None:
    causes = facts(ev.CauseFound)
    assert len(causes) <= 1
    assert read_state(run).found == (causes[0] if causes else None)
    return causes[0] if causes and isinstance(causes[0], ev.CauseFound) else None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_its_cause_is_found_and_told(case: Case, usual_engine: None, tmp_path: Path) -> None:
    ended = start(case, tmp_path)
    assert ended.returncode != 0, ended.stderr
    found = found_in(last())
    assert (found.id if found else UNKNOWN) in case.causes, (found, ended.stderr)
    shown = json.loads(rankdeck("show", "last", "--json").stdout)["cause"]
    if found is None:
        assert shown is None
        return
    told = " ".join((found.text, *found.evidence))
    assert case.says in told, told
    assert any(case.remedy in each for each in found.remedy), found.remedy
    assert case.certainty in ("", found.certainty)
    assert cause_text(found) in ended.stderr
    assert (found.id, found.text, list(found.remedy)) == (shown["id"], shown["text"], shown["remedy"])


def test_two_that_fail_within_a_millisecond_are_both_named(tmp_path: Path) -> None:
    """Which was first cannot be told then. Where the machine was too slow for that, the first is named."""
    (case,) = (each for each in CASES if each.name == "both_at_once")
    ended = start(case, tmp_path)
    raised = {rank.rank: rank.raised.time for rank in read_state(last()).ranks if rank.raised}
    first, *rest = sorted(raised, key=lambda rank: raised[rank])
    assert f"shard {first} is empty" in ended.stderr
    why = read_state(last()).why
    at_once = any(raised[second] - raised[first] <= 0.001 for second in rest)
    assert ("within 1 ms of it" in why) == at_once, why
    assert f"rank {first}" in why


def test_there_are_enough_of_them_and_of_those_that_must_stay_unknown() -> None:
    assert len(CASES) >= 50
    assert sum(UNKNOWN in case.causes for case in CASES) >= 8
    assert len({cause for case in CASES for cause in case.causes}) >= 25
