"""The supervisor over scripted agents: the whole path above the agent, without a process."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest

from launcher.backends.base import StageOver
from launcher.channel.frames import Frame, Kind, encode
from launcher.distributor import launch
from launcher.errors import RankFailed, SpecError
from launcher.job import Job
from launcher.placement.plan import Plan
from launcher.runs.logs.line_index import LineIndex
from launcher.runs.reader import FactTail
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.places import Offer
from launcher.spec.request import Request
from launcher.state import events as ev
from launcher.testing import Script, ScriptedAgent, ScriptedBackend
from tests.commands import until

TWO_HOSTS = (Offer(0, "alpha", 8, slots=2), Offer(1, "beta", 8, slots=2))
ONE_HOST = (Offer(0, "alpha", 8),)


class Start(Protocol):
    """Starts a run over scripted agents."""

    def __call__(
        self,
        scripts: Sequence[Script],
        *,
        n: int = 2,
        offers: Sequence[Offer] = ONE_HOST,
        skews: Sequence[float] = (),
        timeout_s: float | None = None,
    ) -> tuple[Job, ScriptedBackend]: ...


@pytest.fixture
def start(tmp_path: Path) -> Start:
    def begin(
        scripts: Sequence[Script],
        *,
        n: int = 2,
        offers: Sequence[Offer] = ONE_HOST,
        skews: Sequence[float] = (),
        timeout_s: float | None = None,
    ) -> tuple[Job, ScriptedBackend]:
        backend = ScriptedBackend(offers, scripts, skews=skews)
        spec = JobSpec(
            Target(TargetKind.SCRIPT, "/w/train.py"),
            num_processes=n,
            workdir=str(tmp_path),
            timeout_s=timeout_s,
        )
        request = Request(spec, environ={"PATH": "/bin"}, python="/opt/py/bin/python")
        return launch(request, root=tmp_path / "runs", backend=backend), backend

    return begin


def test_a_gang_on_two_hosts_succeeds(start: Start) -> None:
    job, backend = start([lambda v: v.play([0, 1]), lambda v: v.play([2, 3])], n=4, offers=TWO_HOSTS)
    state = job.wait(60)

    assert ("succeeded", 0) == (state.phase, state.exit_code)
    assert ["alpha", "alpha", "beta", "beta"] == [r.host for r in state.ranks]
    assert [] == backend.errors


def test_every_rank_gets_its_own_environment_and_rank_0s_port(start: Start) -> None:
    job, backend = start([lambda v: v.play([0, 1]), lambda v: v.play([2, 3])], n=4, offers=TWO_HOSTS)
    job.wait(60)

    orders = [next(f for f in v.received if f.kind is Kind.START).document() for v in backend.agents]
    third = orders[1]["ranks"]["2"]
    assert {"0", "1"} == orders[0]["ranks"].keys()
    assert ("2", "0", "1", "2") == tuple(
        third[k] for k in ("RANK", "LOCAL_RANK", "GROUP_RANK", "GROUP_WORLD_SIZE")
    )
    assert ("alpha", "40000") == (third["MASTER_ADDR"], third["MASTER_PORT"])
    assert "/opt/py/bin:/bin" == orders[1]["env"]["PATH"]


def test_the_first_failure_stops_the_others_on_every_host(start: Start) -> None:
    def fails(voice: ScriptedAgent) -> None:
        voice.join()
        voice.expect(Kind.START)
        voice.fact(ev.RankStarted, rank=0, pid=1)
        voice.fact(ev.RankExited, rank=0, exit_code=7)
        voice.fact(ev.RankStarted, rank=1, pid=1)
        voice.expect(Kind.STOP)
        voice.fact(ev.RankExited, rank=1, exit_code=143, signal="SIGTERM")
        voice.leave()

    def stops(voice: ScriptedAgent) -> None:
        voice.join()
        voice.expect(Kind.START)
        voice.expect(Kind.STOP)
        for rank in (2, 3):
            voice.fact(ev.RankExited, rank=rank, exit_code=143, signal="SIGTERM")
        voice.leave()

    job, backend = start([fails, stops], n=4, offers=TWO_HOSTS)
    state = job.wait(60)

    assert [] == backend.errors
    assert (7, 0) == (state.exit_code, state.blamed)
    assert ["failed", "stopped", "stopped", "stopped"] == [r.phase for r in state.ranks]
    with pytest.raises(RankFailed) as failure:
        job.result()
    assert ("alpha", 7, None) == (failure.value.host, failure.value.exit_code, failure.value.signal)


def test_a_rank_that_raises_stops_the_gang_before_its_process_has_ended(start: Start) -> None:
    def raises(voice: ScriptedAgent) -> None:
        voice.join()
        voice.expect(Kind.START)
        voice.fact(ev.RankRaised, rank=1, kind="ValueError", message="bad", traceback="T")
        voice.expect(Kind.STOP)  # only now do the processes end, the victim first
        voice.fact(ev.RankExited, rank=0, exit_code=1)
        voice.fact(ev.RankExited, rank=1, exit_code=1)
        voice.leave()

    job, backend = start([raises])
    state = job.wait(60)

    assert [] == backend.errors
    assert (1, "rank 1 on alpha raised ValueError: bad") == (state.blamed, state.why)


def test_facts_of_a_host_with_a_wrong_clock_are_put_in_order(start: Start) -> None:
    job, _ = start(
        [lambda v: v.play([0]), lambda v: v.play([1])],
        offers=(Offer(0, "alpha", 8, slots=1), Offer(1, "beta", 8, slots=1)),
        skews=(0.0, 3600.0),
    )
    state = job.wait(60)

    started = next(e for e in job.events() if isinstance(e, ev.RankStarted) and e.rank == 1)
    assert state.hosts[1].clock_offset == pytest.approx(3600, abs=1)
    assert started.time == pytest.approx(time.time(), abs=60)
    assert started.agent_time == pytest.approx(started.time + 3600, abs=1)


@pytest.mark.parametrize("skew", [-30.0, 0.0, 30.0])
@pytest.mark.parametrize("first", [0, 1])
def test_the_true_first_failure_is_named_whatever_a_host_s_clock_shows(
    start: Start, skew: float, first: int
) -> None:
    """Its report comes last; the other host's clock differs by half a minute."""
    struck, told = threading.Event(), threading.Event()

    def is_first(voice: ScriptedAgent) -> None:
        voice.join()
        voice.expect(Kind.START)
        at = voice.clock() - 0.25
        struck.set()
        assert told.wait(60)
        voice.fact(ev.RankRaised, time=at, rank=voice.agent, kind="E", message="mine", traceback="T")
        voice.expect(Kind.STOP)
        voice.fact(ev.RankExited, rank=voice.agent, exit_code=1)
        voice.leave()

    def is_second(voice: ScriptedAgent) -> None:
        voice.join()
        voice.expect(Kind.START)
        assert struck.wait(60)
        voice.fact(ev.RankRaised, rank=voice.agent, kind="E", message="later", traceback="T")
        told.set()
        voice.expect(Kind.STOP)
        voice.fact(ev.RankExited, rank=voice.agent, exit_code=1)
        voice.leave()

    scripts = [is_second, is_second]
    scripts[first] = is_first
    offers = (Offer(0, "alpha", 8, slots=1), Offer(1, "beta", 8, slots=1))
    job, backend = start(scripts, offers=offers, skews=(0.0, skew))
    state = job.wait(60)

    assert [] == backend.errors
    assert (first, f"rank {first} on {('alpha', 'beta')[first]} raised E: mine") == (state.blamed, state.why)


def test_a_clock_that_is_set_while_its_ranks_run_tells_of_no_future(start: Start) -> None:
    def leaps(voice: ScriptedAgent) -> None:
        voice.join()
        voice.expect(Kind.START)
        voice.skew = 3600.0
        voice.fact(ev.RankStarted, rank=0, pid=1)
        voice.fact(ev.RankExited, rank=0, exit_code=0)
        voice.leave()

    job, _ = start([leaps], n=1)
    job.wait(60)
    assert all(fact.time <= time.time() for fact in job.events())


def test_an_agent_that_goes_away_loses_the_run(start: Start) -> None:
    def vanishes(voice: ScriptedAgent) -> None:
        voice.join()
        voice.expect(Kind.START)
        voice.fact(ev.RankStarted, rank=0, pid=1)

    job, _ = start([vanishes])
    state = job.wait(60)

    assert ("lost", 75) == (state.phase, state.exit_code)
    assert "alpha" in state.why


def test_an_agent_without_the_token_gets_nothing(start: Start) -> None:
    def stranger(voice: ScriptedAgent) -> None:
        voice.token = "guess"
        voice.join()
        voice.expect(Kind.START)

    job, backend = start([stranger])
    state = job.wait(60)

    assert ("lost", 75) == (state.phase, state.exit_code)
    assert isinstance(backend.errors[0], ConnectionError)


def test_an_agent_may_not_tell_the_verdict(start: Start) -> None:
    def liar(voice: ScriptedAgent) -> None:
        voice.join()
        voice.expect(Kind.START)
        voice.fact(ev.RunEnded, state="succeeded", exit_code=0, why="trust me")

    job, _ = start([liar])
    state = job.wait(60)

    assert ("failed", 70) == (state.phase, state.exit_code)


def test_output_and_results_reach_the_folder(start: Start) -> None:
    value = {"weights": b"\x00\xff" * 100_000}

    def talks(voice: ScriptedAgent) -> None:
        voice.join()
        voice.expect(Kind.START)
        voice.output(0, 1, b"hel")
        voice.output(1, 1, b"other\n")
        voice.output(0, 1, b"lo\n")
        voice.result(1, value)
        for rank in (0, 1):
            voice.fact(ev.RankExited, rank=rank, exit_code=0)
        voice.leave()

    job, _ = start([talks])
    job.wait(60)
    index = LineIndex(job.folder)
    index.poll()

    assert [(1, b"other"), (0, b"hello")] == [(index.line(i).rank, index.line(i).data) for i in range(2)]
    assert value == job.result(1)
    assert job.result(0) is None
    index.close()


def test_a_result_that_breaks_off_leaves_nothing(start: Start) -> None:
    def breaks(voice: ScriptedAgent) -> None:
        voice.join()
        voice.expect(Kind.START)
        voice.sock.sendall(b"".join(_half_a_result()))

    job, _ = start([breaks])
    job.wait(60)

    assert [] == list((job.folder / "result").iterdir())


def _half_a_result() -> list[bytes]:
    return [encode(Frame(Kind.RESULT_BEGIN)), encode(Frame(Kind.RESULT_DATA, b"half"))]


def test_the_time_limit_stops_the_run(start: Start) -> None:
    def obeys(voice: ScriptedAgent) -> None:
        voice.join()
        voice.expect(Kind.START)
        voice.expect(Kind.STOP)
        for rank in (0, 1):
            voice.fact(ev.RankExited, rank=rank, exit_code=143, signal="SIGTERM")
        voice.leave()

    job, _ = start([obeys], timeout_s=0.05)
    state = job.wait(60)

    assert ("failed", 124) == (state.phase, state.exit_code)


def ask_for_stacks(voice: ScriptedAgent) -> int:
    voice.join()
    voice.expect(Kind.START)
    for rank in (0, 1):
        voice.fact(ev.RankStarted, rank=rank, pid=1)
    number: int = voice.expect(Kind.STACKS).document()["round"]
    return number


def stopped(voice: ScriptedAgent) -> None:
    for rank in (0, 1):
        voice.fact(ev.RankExited, rank=rank, exit_code=143, signal="SIGTERM")
    voice.leave()


def test_a_limit_asks_for_stacks_before_it_stops_the_ranks(start: Start) -> None:
    def answers(voice: ScriptedAgent) -> None:
        number = ask_for_stacks(voice)
        for rank in (0, 1):
            voice.fact(ev.StacksTaken, rank=rank, text=f"stacks of {rank}")
        voice.send(Kind.STACKED, {"round": number})
        voice.expect(Kind.STOP)
        stopped(voice)

    job, backend = start([answers], timeout_s=0.2)
    state = job.wait(60)

    assert [] == backend.errors
    assert ["stacks of 0", "stacks of 1"] == [s.text for s in state.stacks]
    heard = [f.kind for f in backend.agents[0].received]
    assert heard.index(Kind.STACKS) < heard.index(Kind.STOP)
    assert ("failed", 124) == (state.phase, state.exit_code)


def test_ranks_are_stopped_even_if_no_agent_tells_their_stacks(start: Start) -> None:
    def mute(voice: ScriptedAgent) -> None:
        ask_for_stacks(voice)
        voice.expect(Kind.STOP)
        stopped(voice)

    job, backend = start([mute], timeout_s=0.2)
    state = job.wait(60)

    assert [] == backend.errors
    assert ("failed", 124, ()) == (state.phase, state.exit_code, state.stacks)


def test_a_person_who_presses_on_does_not_wait_for_stacks(start: Start) -> None:
    asked, pressed = threading.Event(), threading.Event()

    def slow(voice: ScriptedAgent) -> None:
        number = ask_for_stacks(voice)
        asked.set()
        assert 0.0 == voice.expect(Kind.STOP).document()["grace_s"]
        assert pressed.is_set()
        voice.send(Kind.STACKED, {"round": number})
        stopped(voice)

    job, backend = start([slow], timeout_s=0.2)
    assert asked.wait(60)
    pressed.set()
    job.stop(force=True)
    state = job.wait(60)

    assert [] == backend.errors
    assert ("failed", 124) == (state.phase, state.exit_code)
    assert 1 == [f.kind for f in backend.agents[0].received].count(Kind.STOP)


def test_stacks_can_only_be_asked_of_ranks_that_run(start: Start) -> None:
    release = threading.Event()

    def late(voice: ScriptedAgent) -> None:
        assert release.wait(60)
        voice.play([0, 1])

    job, backend = start([late])
    with pytest.raises(SpecError, match="no rank is running"):
        job._supervisor.dump_stacks()
    release.set()
    job.wait(60)
    with pytest.raises(SpecError, match="no rank is running"):
        job._supervisor.dump_stacks()
    assert [] == backend.errors


def test_a_stop_before_the_agents_have_joined_starts_no_rank(start: Start) -> None:
    holder: list[Job] = []

    def late(voice: ScriptedAgent) -> None:
        job = holder_job()
        job.stop()
        next(e for e in job.events() if isinstance(e, ev.StopRequested))
        voice.join()

    def holder_job() -> Job:
        while not holder:
            time.sleep(0.001)  # launch returns in the other thread
        return holder[0]

    job, backend = start([late])
    holder.append(job)
    state = job.wait(60)

    assert Kind.START not in {frame.kind for frame in backend.agents[0].received}
    assert ("stopped", 143) == (state.phase, state.exit_code)
    assert [None, None] == [rank.pid for rank in state.ranks]


def test_facts_are_written_in_the_order_in_which_they_are_told(start: Start) -> None:
    job, _ = start([lambda v: v.play([0, 1])])
    job.wait(60)

    tags = [e.tag for e in FactTail(job.folder).poll()]
    assert tags[0] == "run_submitted"
    assert tags[-1] == "run_ended"
    assert tags.index("agent_joined") < tags.index("rank_started") < tags.index("cleanup_proven")


class Crowded(ScriptedBackend):
    """A machine on which there is no room yet."""

    def launch(self, request: Request, plan: Plan | None, folder: Path, *, attempt: int) -> None:
        self.begin = partial(super().launch, request, plan, folder, attempt=attempt)
        waiting = ev.SlotsAwaited(time=time.time(), have=0, need=1, limit_s=request.spec.start_timeout_s)
        self.box.put(waiting)

    def abort(self) -> None:
        self.box.put(StageOver())
        super().abort()


def crowded(tmp_path: Path, start_timeout_s: float) -> tuple[Job, Crowded]:
    backend = Crowded(ONE_HOST, [lambda v: v.play([0, 1])])
    target = Target(TargetKind.SCRIPT, "/w/train.py")
    spec = JobSpec(target, num_processes=2, workdir=str(tmp_path), start_timeout_s=start_timeout_s)
    return launch(Request(spec), root=tmp_path / "runs", backend=backend), backend


def test_a_run_waits_for_room_on_this_machine_and_then_starts(tmp_path: Path) -> None:
    job, backend = crowded(tmp_path, 600.0)
    until(lambda: job.state.phase == "waiting")
    assert (None, 0) == (job.state.near, len(job.state.ranks))
    backend.begin()

    assert "succeeded" == job.wait(60).phase
    assert ["waiting", "starting", "running", "succeeded"] == [phase for phase, _ in job.state.since[1:]]


def test_a_run_that_finds_no_room_in_time_cannot_be_placed(tmp_path: Path) -> None:
    job, _ = crowded(tmp_path, 0.4)
    state = job.wait(60)

    assert ("failed", 69) == (state.phase, state.exit_code)
    assert "no room on this machine within 0.4 s" in state.why
    assert [("start", 0.4)] == [(e.limit, e.limit_s) for e in job.events() if isinstance(e, ev.LimitNear)]


def test_a_run_that_waits_for_room_can_be_stopped(tmp_path: Path) -> None:
    job, _ = crowded(tmp_path, 600.0)
    until(lambda: job.state.phase == "waiting")
    job.stop()

    assert ("stopped", 143) == (job.wait(60).phase, job.state.exit_code)
