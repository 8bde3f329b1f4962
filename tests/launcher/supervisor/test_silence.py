"""Who is silent and who is hung, second by second, with a clock and samples of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

import pytest

from launcher.diagnosis import silence
from launcher.diagnosis.silence import SilenceLimits
from launcher.errors import SpecError
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.places import Assignment, Device
from launcher.state import events as ev
from launcher.state.fold import fold, fold_all
from launcher.state.run_state import RunState
from launcher.supervisor.silence_watch import SilenceWatch, chosen_limits

C10D = "/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
COLLECTIVE = f'  File "{C10D}", line 3 in all_reduce\n  File "/w/train.py", line 41 in fit'
QUEUE = '  File "/usr/lib/python3.11/queue.py", line 171 in get\n  File "/w/data.py", line 88 in batch'
OWN = '  File "/w/train.py", line 41 in fit'


@dataclass(frozen=True)
class Doing:
    """What a rank does in one second: CPU, bytes written, use and power of its GPU, a step, output."""

    cpu: float | None = 0.5
    io: int = 0
    disk: bool = False
    gpu: float | None = 0.0
    power: float | None = 60.0
    step: bool = False
    prints: bool = False
    stack: str = OWN


IDLE = Doing()
TRAINS = Doing(cpu=100.0, gpu=90.0, power=400.0, step=True)
WAITS = Doing(stack=COLLECTIVE)
SPINS = Doing(cpu=100.0, gpu=100.0, power=130.0, stack=OWN)
STUCK = Doing(stack=QUEUE)
Script = Callable[[int], Doing]


@dataclass
class Gang:
    """A gang whose ranks do as their scripts say; `watch` takes one look a second."""

    scripts: Mapping[int, Script]
    gpus: bool = False
    limits: SilenceLimits = field(default_factory=SilenceLimits)
    now: float = 1000.0
    facts: list[ev.Event] = field(default_factory=list)
    dumps: int = 0
    takes_stacks: bool = False
    written: dict[int, float] = field(default_factory=dict)
    io: dict[int, int] = field(default_factory=dict)
    steps: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        size = len(self.scripts)
        places = [
            Assignment(r, size, r, size, 0, 1, r, "h", (Device(0, f"G{r}"),) if self.gpus else ())
            for r in range(size)
        ]
        started: list[ev.Event] = [
            ev.RunSubmitted(time=self.now, name="n", target="t", mode="local", num_processes=size),
            *(ev.AgentJoined(time=self.now, agent=r, host="h", pid=1) for r in range(size)),
            ev.GangPlaced(time=self.now, ranks=tuple(places)),
            *(ev.RankStarted(time=self.now, rank=r, pid=9) for r in range(size)),
            *(ev.RankEntered(time=self.now, rank=r) for r in range(size)),
        ]
        self.state: RunState = fold_all(started)
        self.watch = SilenceWatch(self, self, self, lambda: self.now, self.limits)  # type: ignore[arg-type]

    def append(self, fact: ev.Event) -> None:
        """As the writer does."""
        self.facts.append(fact)
        self.state = fold(self.state, fact)

    def take_stacks(self) -> None:
        """As the watchdog does; all ranks answer at once."""
        self.dumps += 1
        for rank in self.state.ranks:
            if rank.alive:
                text = self.doing(rank.rank).stack
                stacks = f"Current thread 0x1 (most recent call first):\n{text}\n" if text else ""
                self.state = fold(self.state, ev.StacksTaken(time=self.now, rank=rank.rank, text=stacks))

    def doing(self, rank: int) -> Doing:
        """What a rank does now."""
        return self.scripts[rank](int(self.now - 1000))

    def run(self, seconds: int) -> Gang:
        """Let so many seconds pass."""
        for _ in range(seconds):
            self.now += 1.0
            for rank in self.state.ranks:
                if rank.alive:
                    self._act(rank.rank, self.doing(rank.rank))
            self.watch.look()
        return self

    def _act(self, rank: int, doing: Doing) -> None:
        self.io[rank] = self.io.get(rank, 0) + doing.io
        if doing.step:
            self.steps[rank] = self.steps.get(rank, 0) + 1
            report = ev.RankReported(time=self.now, rank=rank, step=self.steps[rank])
            self.state = fold(self.state, report)
        if doing.prints:
            self.written[rank] = self.now
        sample = ev.RankSample(
            rank=rank, cpu=doing.cpu, read_bytes=0, write_bytes=self.io[rank], disk_wait=doing.disk
        )
        device = ev.DeviceSample(uuid=f"G{rank}", util=doing.gpu, power_w=doing.power, power_limit_w=700.0)
        sampled = ev.Sampled(
            time=self.now, agent=rank, host="h", ranks=(sample,), devices=(device,) if self.gpus else ()
        )
        self.state = fold(self.state, sampled)

    @property
    def hung(self) -> list[int]:
        """The ranks that are hung now."""
        return [rank.rank for rank in self.state.ranks if rank.hung]

    @property
    def silent(self) -> list[int]:
        """The silent ones, hung ones included."""
        return [rank.rank for rank in self.state.ranks if rank.silent_since is not None]

    @property
    def waiting(self) -> list[int]:
        """Those that wait for hung ones."""
        return [rank.rank for rank in self.state.ranks if rank.waits]


def then(*parts: tuple[int, Doing]) -> Script:
    """Do each for so many seconds, and the last one for ever."""

    def script(second: int) -> Doing:
        for seconds, doing in parts:
            second -= seconds
            if second <= 0:
                return doing
        return parts[-1][1]

    return script


def gang(*scripts: Script, **options: Any) -> Gang:
    return Gang(dict(enumerate(scripts)), **options)


def test_the_rank_outside_the_collective_is_silent_and_then_hung_and_the_others_wait() -> None:
    run = gang(*[then((20, TRAINS), (0, WAITS))] * 3, then((20, TRAINS), (0, STUCK)))

    run.run(20 + 29)
    assert ([], []) == (run.silent, run.hung)
    run.run(2)
    assert ([0, 1, 2, 3], []) == (run.silent, run.hung)
    run.run(28)
    assert [] == run.hung
    run.run(5)
    assert ([3], [0, 1, 2]) == (run.hung, run.waiting)
    assert 1 == run.dumps
    hung = next(f for f in run.facts if isinstance(f, ev.RanksSilent) and f.hung)
    assert (1020.0, (3,), (0, 1, 2)) == (hung.since, hung.ranks, hung.waiting)
    run.run(600)
    assert 1 == run.dumps
    assert ["ranks_silent", "ranks_silent"] == [fact.tag for fact in run.facts]


def test_a_hung_rank_that_goes_on_is_told_once() -> None:
    both = then((20, TRAINS), (90, WAITS), (0, TRAINS)), then((20, TRAINS), (90, STUCK), (0, TRAINS))
    run = gang(*both).run(100)
    assert [1] == run.hung
    run.run(20)
    assert ([], [], []) == (run.hung, run.silent, run.waiting)
    assert 1 == sum(isinstance(fact, ev.RanksResumed) for fact in run.facts)


def test_ranks_whose_gpus_spin_at_little_power_wait() -> None:
    run = gang(*[then((20, TRAINS), (0, SPINS))] * 3, then((20, TRAINS), (0, STUCK)), gpus=True)
    assert ([3], [0, 1, 2]) == (run.run(90).hung, run.waiting)


@pytest.mark.parametrize(
    "power",
    [pytest.param(500.0, id="they work"), pytest.param(None, id="unknown")],
)
def test_ranks_whose_gpus_may_work_are_not_waiting(power: float | None) -> None:
    busy = replace(SPINS, power=power)
    run = gang(*[then((20, TRAINS), (0, busy))] * 3, then((20, TRAINS), (0, STUCK)), gpus=True).run(600)
    assert ([], [3]) == (run.hung, run.silent)


def test_steps_that_take_long_make_a_limit_that_is_long() -> None:
    def slow(second: int) -> Doing:
        return replace(TRAINS, step=second % 20 == 0) if second < 200 else STUCK

    run = gang(slow, lambda s: slow(s) if s < 200 else WAITS).run(200 + 180)
    assert [] == run.hung
    assert [0] == run.run(40).hung


COMPILES = Doing(cpu=100.0, stack=OWN)
EVALUATES = Doing(cpu=100.0, gpu=97.0, power=500.0, stack=OWN)
WRITES = Doing(cpu=1.0, io=2 << 20, stack='  File "/w/torch/serialization.py", line 5 in save')
IN_DISK = Doing(cpu=0.0, disk=True, stack=OWN)


@pytest.mark.parametrize(
    ("works", "seconds"),
    [
        pytest.param(COMPILES, 180, id="a compile of 3 minutes"),
        pytest.param(EVALUATES, 600, id="a silent evaluation"),
        pytest.param(WRITES, 120, id="a checkpoint of 2 minutes"),
        pytest.param(IN_DISK, 120, id="a checkpoint on a slow disk"),
        pytest.param(replace(IDLE, prints=True), 600, id="only output"),
    ],
)
@pytest.mark.parametrize("gpus", [False, True])
def test_one_that_works_is_not_hung_nor_are_those_that_wait_for_it(
    works: Doing, seconds: int, gpus: bool
) -> None:
    waits = then((20, TRAINS), (seconds, WAITS), (0, TRAINS))
    run = gang(then((20, TRAINS), (seconds, works), (0, TRAINS)), waits, waits, gpus=gpus)
    run.run(20 + seconds + 60)
    assert not [f for f in run.facts if isinstance(f, ev.RanksSilent) and f.hung]
    assert run.dumps <= 1
    assert [] == run.silent


def test_all_ranks_compile_at_once() -> None:
    assert [] == gang(*[then((20, TRAINS), (0, COMPILES))] * 3).run(300).facts


def test_a_rank_that_is_idle_while_others_make_steps_is_silent_but_nobody_waits() -> None:
    run = gang(lambda _: TRAINS, lambda _: STUCK).run(600)
    assert ([], [1], 0) == (run.hung, run.silent, run.dumps)


def test_a_declared_pause_excuses_the_gang_and_the_time_counts_anew_after_it() -> None:
    run = gang(then((20, TRAINS), (0, STUCK)), then((20, TRAINS), (0, WAITS))).run(20)
    run.append(ev.RankPaused(time=run.now, rank=0, reason="debugging"))
    run.run(3600)
    assert ([], "debugging") == (run.silent, run.state.ranks[0].paused)
    run.append(ev.RankPaused(time=run.now, rank=0, over=True))
    run.run(55)
    assert ([], None) == (run.hung, run.state.ranks[0].paused)
    assert [0] == run.run(10).hung


def test_a_pause_that_is_declared_late_explains_the_silence() -> None:
    run = gang(lambda _: STUCK, lambda _: WAITS).run(90)
    assert [0] == run.hung
    run.append(ev.RankPaused(time=run.now, rank=1, reason="pdb"))
    assert ([], [], []) == (run.run(2).hung, run.silent, run.waiting)


@pytest.mark.parametrize("fact", [ev.RowsAwaited, ev.LogAwaited])
def test_a_rank_that_waits_for_us_is_not_hung(fact: Any) -> None:
    run = gang(lambda _: STUCK, lambda _: WAITS)
    run.append(fact(time=run.now, rank=0))
    assert [] == run.run(300).silent


@pytest.mark.parametrize(
    "unknown",
    [
        pytest.param({"cpu": None}, id="cpu"),
        pytest.param({"gpu": None}, id="gpu"),
    ],
)
def test_without_figures_nobody_is_judged(unknown: dict[str, Any]) -> None:
    run = gang(lambda _: replace(STUCK, **unknown), lambda _: WAITS, gpus=True).run(600)
    assert ([], [1]) == (run.hung, run.silent)


def test_samples_that_stop_show_nothing() -> None:
    run = gang(lambda _: STUCK, lambda _: WAITS).run(20)
    for _ in range(600):
        run.now += 1.0
        run.watch.look()
    assert [] == run.facts
    run.run(50)  # the time without samples does not count
    assert [] == run.hung
    assert [0] == run.run(20).hung


def test_ranks_that_all_sleep_stand_still_together() -> None:
    assert [0, 1] == gang(lambda _: IDLE, lambda _: IDLE).run(90).hung


def test_ranks_that_wait_in_different_collectives_stand_still_together() -> None:
    run = gang(lambda _: WAITS, lambda _: WAITS).run(90)
    assert ([0, 1], []) == (run.hung, run.waiting)


def test_without_stacks_a_gang_that_is_idle_stands_still() -> None:
    assert [0, 1] == gang(*[lambda _: replace(IDLE, stack="")] * 2).run(90).hung


def test_for_a_single_rank_nobody_waits() -> None:
    run = gang(lambda _: STUCK).run(600)
    assert ([], [0], 0) == (run.hung, run.silent, run.dumps)


@pytest.mark.parametrize(("left", "hung"), [(WAITS, [0]), (STUCK, [])])
def test_the_last_rank_hangs_only_where_it_waits_for_those_that_have_ended(
    left: Doing, hung: list[int]
) -> None:
    run = gang(then((20, TRAINS), (0, left)), lambda _: TRAINS).run(20)
    run.append(ev.RankExited(time=run.now, rank=1, exit_code=0))
    assert hung == run.run(90).hung


def test_nothing_is_judged_once_the_gang_is_being_stopped() -> None:
    run = gang(lambda _: STUCK, lambda _: WAITS)
    run.append(ev.StopRequested(time=run.now, by="person", reason="x"))
    assert 1 == len(run.run(90).facts)


def test_when_another_rank_becomes_idle_the_stacks_are_taken_again() -> None:
    first = then((20, TRAINS), (100, EVALUATES), (0, STUCK))
    run = gang(first, then((20, TRAINS), (0, WAITS))).run(110)
    assert ([], 1) == (run.hung, run.dumps)
    assert ([0], 2) == (run.run(100).hung, run.dumps)


def test_another_spell_of_the_same_ranks_has_stacks_of_its_own() -> None:
    first = then((20, TRAINS), (100, WAITS), (60, TRAINS), (0, STUCK))
    run = gang(first, then((20, TRAINS), (100, STUCK), (60, TRAINS), (0, WAITS))).run(110)
    assert ([1], [0], 1) == (run.hung, run.waiting, run.dumps)
    assert ([0], [1], 2) == (run.run(160).hung, run.waiting, run.dumps)


BACKWARD = (
    '  File "/v/site-packages/torch/_tensor.py", line 581 in backward\n  File "/w/train.py", line 3 in f'
)


def test_ranks_that_are_idle_in_a_backward_pass_wait() -> None:
    waits = then((20, TRAINS), (0, replace(IDLE, stack=BACKWARD)))
    run = gang(waits, waits, then((20, TRAINS), (0, STUCK))).run(120)
    assert ([2], [0, 1]) == (run.hung, run.waiting)


def test_a_look_works_out_no_pace_of_a_rank_without_a_new_step(monkeypatch: pytest.MonkeyPatch) -> None:
    run = gang(*[then((20, TRAINS), (0, WAITS))] * 8).run(25)
    medians: list[int] = []

    def counted(values: list[float]) -> float:
        medians.append(len(values))
        return median(values)

    monkeypatch.setattr(silence, "median", counted)
    run.run(60)
    assert [8] * 60 == medians, "only that of the gang, once a look"


def test_a_look_that_shows_nothing_new_makes_no_new_pulse() -> None:
    rank = gang(lambda _: TRAINS).run(5).state.ranks[0]
    seen = silence.observe(None, rank, (), written=None, now=1005.0)
    assert silence.observe(seen, rank, (), written=None, now=1006.0) is seen


def test_the_limit_may_be_chosen() -> None:
    spec = JobSpec(Target(TargetKind.SCRIPT, "/w/t.py"), 1)
    assert SilenceLimits() == chosen_limits(spec, {})
    chosen = replace(spec, sample_s=5.0, no_progress_timeout_s=8.0)
    assert SilenceLimits(3.0, silent_s=4.0, gap_s=15.0) == chosen_limits(chosen, {"RANKDECK_HUNG_S": "3"})
    with pytest.raises(SpecError, match="RANKDECK_HUNG_S must be a number of seconds, at least 1, not 'x'"):
        chosen_limits(spec, {"RANKDECK_HUNG_S": "x"})
