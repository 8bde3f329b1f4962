"""Ranks that hang, as real processes: they are found, asked what they do, told so, and ended."""

from __future__ import annotations

import itertools
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from launcher.agent import linux, rank_main
from launcher.agent.stacks import own_frames
from launcher.distributor import Distributor, launch
from launcher.errors import NoProgress, TimeLimit
from launcher.job import Job
from launcher.runs import paths
from launcher.runs.reader import FactTail
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.request import Request
from launcher.state import events as ev
from tests.agents import Agents
from tests.commands import Gate, until
from tests.targets import hanging

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark")]

# long enough for interpreters to start on a busy machine, where nothing would be said of them meanwhile
HUNG_S = 3.0


def start(targets: Path, how: str, *args: str, n: int = 2, **options: Any) -> Job:
    chosen = {"grace_s": 0.5, "no_progress_timeout_s": HUNG_S, **options}
    return Distributor(n, gpu=False, **chosen).start(str(targets / "hanging.py"), how, *args)


def hung(job: Job) -> dict[int, ev.StacksTaken]:
    """The stacks of a run that ended because it hung."""
    state = job.wait(60)
    assert ("failed", 125) == (state.phase, state.exit_code), state.why
    assert all(not host.cleanup.survivors for host in state.hosts.values() if host.cleanup)
    return {taken.rank: taken for taken in state.stacks}


def functions(taken: ev.StacksTaken) -> list[str]:
    """The functions of the thread that was asked, innermost first."""
    assert taken.text, taken.reason
    current = next(t for t in taken.text.split("\n\n") if t.startswith(("Current thread", "Thread")))
    return re.findall(r'^  File "[^"]*hanging\.py", line \d+ in (\S+)$', current, re.MULTILINE)


def output(job: Job, rank: int, stream: int = paths.STDOUT) -> str:
    path = paths.log_file(job.folder, 0, rank, stream)
    return path.read_text() if path.exists() else ""


# --- what is seen


def test_the_rank_that_keeps_the_others_waiting_is_told_from_them(targets: Path) -> None:
    job = start(targets, "collective", n=4)
    stacks = hung(job)

    assert [["wait_for_the_others", "collective", "<module>"]] * 3 == [functions(stacks[r]) for r in range(3)]
    assert ["forgets_the_collective", "collective", "<module>"] == functions(stacks[3])
    with pytest.raises(NoProgress, match=f"no progress for {HUNG_S:g} s"):
        job.result()


@pytest.mark.parametrize("how", ["spin", "native", "takes_usr2", "threads"])
def test_every_rank_says_where_it_is_whatever_it_does(targets: Path, how: str) -> None:
    job = start(targets, how)
    stacks = hung(job)

    for rank in (0, 1):
        assert how in stacks[rank].text
        assert "launcher/agent" not in stacks[rank].text
        assert "here\n" == output(job, rank)  # nothing of it in the rank's own output, and no handler ran
        assert "" == output(job, rank, paths.STDERR)
    if how == "threads":
        assert all(21 == stacks[r].text.count("(most recent call first)") for r in (0, 1))


def test_the_facts_come_in_an_order_that_tells_the_story(targets: Path) -> None:
    job = start(targets, "collective")
    hung(job)
    facts = list(job.events())
    tags = [e.tag for e in facts]

    near = next(e for e in facts if isinstance(e, ev.LimitNear))
    stop = next(e for e in facts if isinstance(e, ev.StopRequested))
    assert ("progress", HUNG_S) == (near.limit, near.limit_s)
    assert near.at == pytest.approx(stop.time, abs=0.5)
    assert tags.index("limit_near") < tags.index("stop_requested") < tags.index("stacks_taken")
    assert tags.index("stacks_taken") < tags.index("rank_exited")
    assert 2 == tags.count("stacks_taken") == tags.count("rank_exited")


def test_sixteen_ranks_all_answer(targets: Path) -> None:
    stacks = hung(start(targets, "collective", n=16, no_progress_timeout_s=8.0))

    assert list(range(16)) == list(stacks)
    assert all("hanging.py" in taken.text for taken in stacks.values())


def test_twenty_hangs_are_twenty_times_found_with_all_their_stacks(targets: Path) -> None:
    for _ in range(5):
        jobs = [start(targets, "collective") for _ in range(4)]
        for job in jobs:
            stacks = hung(job)
            assert [0, 1] == list(stacks)
            assert all("collective" in functions(taken) for taken in stacks.values())


# --- what cannot be seen is said


MUTE = {
    "becomes_another": "it has become another program",
    "closes_all": "it has closed the file",
    "takes_ours": "it printed none within 2 s",
    "blocks_all": "all of its threads block the signal",
    "stopped": "stopped",
}


def test_a_rank_that_does_not_answer_is_described_and_not_harmed(targets: Path, tmp_path: Path) -> None:
    jobs = {how: start(targets, how, str(tmp_path / "mine"), n=1) for how in MUTE}
    for how, job in jobs.items():
        taken = hung(job)[0]

        assert ("", True) == (taken.text, MUTE[how] in taken.reason), taken
        assert re.search(r"^thread \d+: \w+, ", taken.reason, re.MULTILINE), taken
        assert job.state.ranks[0].signal in ("SIGTERM", "SIGKILL")
    mine = list(tmp_path.glob("mine.*"))
    assert mine
    assert all(not file.stat().st_size for file in mine)  # nothing was written to what took our number


def test_a_rank_whose_interpreter_is_still_starting_is_not_killed_by_the_question(
    targets: Path, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import threading\nthreading.Event().wait()\n")
    job = start(targets, "collective", env={"PYTHONPATH": str(tmp_path)})
    stacks = hung(job)

    assert all("its interpreter is starting" in taken.reason for taken in stacks.values())
    assert ["SIGTERM", "SIGTERM"] == [rank.signal for rank in job.state.ranks]


def test_a_rank_that_still_imports_shows_the_import(targets: Path) -> None:
    distributor = Distributor(2, gpu=False, grace_s=0.5, no_progress_timeout_s=HUNG_S)
    stacks = hung(distributor.start(f"{targets / 'slow_import.py'}:train"))

    assert all('slow_import.py", line 5 in <module>' in taken.text for taken in stacks.values())
    assert all("launcher/agent" not in taken.text for taken in stacks.values())


# --- when


@pytest.mark.parametrize("how", ["dots", "reports"])
def test_one_rank_that_shows_life_keeps_all_alive(targets: Path, how: str) -> None:
    distributor = Distributor(2, gpu=False, no_progress_timeout_s=HUNG_S)
    state = distributor.start(str(targets / "dotting.py"), how, str(2 * HUNG_S)).wait(60)

    assert ("succeeded", 0) == (state.phase, state.exit_code), state.why
    assert () == state.stacks


def test_the_time_limit_takes_stacks_too(targets: Path) -> None:
    # unlike the limit on progress it counts from the launch, so interpreters start within it
    job = start(targets, "spin", no_progress_timeout_s=None, timeout_s=4 * HUNG_S)
    state = job.wait(60)

    assert ("failed", 124) == (state.phase, state.exit_code)
    assert [0, 1] == [taken.rank for taken in state.stacks]
    assert all("spin" in taken.text for taken in state.stacks)
    assert ["time"] == [e.limit for e in job.events() if isinstance(e, ev.LimitNear)]
    with pytest.raises(TimeLimit):
        job.result()


def test_executors_ranks_name_files_as_the_caller_does(targets: Path, tmp_path: Path) -> None:
    target = Target(TargetKind.SCRIPT, str(targets / "hanging.py"), args=("collective",))
    spec = JobSpec(
        target, 2, mode=Mode.CLUSTER, workdir=str(tmp_path), grace_s=0.5, no_progress_timeout_s=HUNG_S
    )
    stacks = hung(launch(Request(spec), backend=Agents(2)))

    assert [0, 1] == list(stacks)
    assert all(f'File "{targets / "hanging.py"}", line' in taken.text for taken in stacks.values()), stacks
    assert all("rankdeck-" not in taken.text for taken in stacks.values())


def test_each_attempt_has_its_time_and_the_last_one_its_stacks(targets: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, sys, time\n"
        "if os.environ['TORCHELASTIC_RESTART_COUNT'] != '2':\n"
        "    sys.exit(3)\n"
        "def last_attempt(): time.sleep(600)\n"
        "last_attempt()\n"
    )
    job = Distributor(2, gpu=False, grace_s=0.5, max_restarts=5, no_progress_timeout_s=HUNG_S).start(
        str(tmp_path / "train.py")
    )
    stacks = hung(job)

    assert 2 == job.state.attempt
    assert {2} == {taken.attempt for taken in stacks.values()}
    assert all("last_attempt" in taken.text for taken in stacks.values())


def test_a_person_gets_stacks_of_ranks_that_live_and_they_go_on(targets: Path, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate", 2)
    job = Distributor(2, gpu=False).start(str(targets / "waiting.py"), "gate", str(gate.path))
    until(lambda: all(output(job, rank) == "ready\n" for rank in (0, 1)))
    for turn in range(1, 4):
        job._supervisor.dump_stacks()
        until(lambda turn=turn: turn * 2 == sum(e.tag == "stacks_taken" for e in _so_far(job)))  # type: ignore[misc]
    gate.open()
    state = job.wait(60)

    assert ("succeeded", 0) == (state.phase, state.exit_code)
    assert ["ready\npassed\n"] * 2 == [output(job, rank) for rank in (0, 1)]
    assert all("in main" in taken.text and 1 == taken.text.count("(most recent") for taken in state.stacks)


def _so_far(job: Job) -> list[ev.Event]:
    return FactTail(job.folder).poll()


def test_a_person_who_stops_the_run_waits_for_no_stacks(targets: Path) -> None:
    job = start(targets, "collective")
    until(lambda: all(output(job, rank) == "here\n" for rank in (0, 1)))
    job.stop(force=True)
    state = job.wait(60)

    assert "stopped" == state.phase
    assert () == state.stacks


# --- the parts


def test_our_signal_is_none_that_programs_take() -> None:
    assert signal.SIGRTMIN < rank_main.STACKS_SIGNAL < signal.SIGRTMAX
    assert hanging.STACKS_SIGNAL == rank_main.STACKS_SIGNAL


def test_frames_of_ours_go_and_those_of_users_stay() -> None:
    text = (
        "Thread 0x1 (most recent call first):\n"
        '  File "/w/launcher/agent/rank_main.py", line 5 in helper\n'
        '  File "/w/train.py", line 9 in loop\n\n'
        "Current thread 0x2 (most recent call first):\n"
        '  File "/w/train.py", line 3 in f\n'
        '  File "<string>", line 1 in made\n'
        '  File "/w/train.py", line 8 in <module>\n'
        '  File "/zip/launcher/agent/rank_main.py", line 76 in run\n'
        '  File "/zip/launcher/agent/rank_main.py", line 90 in run\n'
        '  File "/zip/launcher/agent/rank_main.py", line 60 in main\n'
        '  File "<string>", line 1 in <module>\n'
    )
    kept = own_frames(text)

    assert [5, 9, 3, 1, 8] == [int(n) for n in re.findall(r"line (\d+)", kept)]
    assert kept.endswith("line 8 in <module>\n")


def test_what_cannot_be_read_of_a_process_is_empty() -> None:
    gone = next(pid for pid in itertools.count(4_000_000) if not os.path.exists(f"/proc/{pid}"))

    assert not linux.is_alive(gone)
    assert not linux.catches(gone, signal.SIGTERM)
    assert frozenset() == linux.blocking(gone, signal.SIGTERM)
    assert [] == list(linux.threads(gone, signal.SIGTERM))


def test_what_a_process_does_with_a_signal_is_read_from_the_kernel() -> None:
    me = os.getpid()
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        assert linux.is_alive(me)
        assert linux.catches(me, signal.SIGUSR1)
        assert not linux.catches(me, signal.SIGTTIN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        assert me in linux.blocking(me, signal.SIGUSR1)
        assert not linux.is_pending(me, signal.SIGUSR1)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        signal.signal(signal.SIGUSR1, before)
