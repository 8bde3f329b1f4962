"""Waiting for slots, with a clock and a cluster that move when told to."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from launcher.backends.spark import executors, slot_wait
from launcher.backends.spark.slot_wait import ReplaceSession, Replacing, Slots, await_slots
from launcher.backends.spark.slots import DYNAMIC, EXECUTOR_GPUS, Capacity, SlotNeed
from launcher.errors import CannotPlace
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.state.events import SlotsAwaited
from launcher.testing import FakeClock

TARGET = Target(TargetKind.SCRIPT, "/w/train.py")


@dataclass
class FakeSession:
    """What the rules ask of a session."""

    settings: dict[str, str] = field(default_factory=dict)
    master: str = "spark://m:7077"
    remote: bool = False
    owned: bool = True
    settings_known: bool = True
    version: str = "3.3.0"  # without resource profiles
    claims: dict[str, int] = field(default_factory=dict)
    claiming: Any = field(default_factory=threading.Lock)

    @property
    def local(self) -> bool:
        return self.master.startswith("local[")

    def conf(self, key: str, default: str = "") -> str:
        return self.settings.get(key, default)


class Called(threading.Event):
    """An event whose waiters do not wait, but move the clock; it is set after so many of them."""

    def __init__(self, clock: FakeClock, after: int | None = None) -> None:
        super().__init__()
        self._clock, self._left = clock, after
        self.pauses: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.pauses.append(timeout)
        assert len(self.pauses) < 5000, "it waits for ever"
        self._clock.advance(timeout)
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                self.set()
        return self.is_set()


@dataclass
class Cluster:
    """Capacities by the second from which they hold; `asked` is what was asked for."""

    steps: Sequence[tuple[float, Capacity]]
    clock: FakeClock = field(default_factory=lambda: FakeClock(0.0))
    told: list[SlotsAwaited] = field(default_factory=list)
    asked: list[SlotNeed] = field(default_factory=list)
    session: FakeSession = field(default_factory=FakeSession)
    replacing: Replacing | None = None
    waited_s: float = 0.0

    def __post_init__(self) -> None:
        self.began = self.clock()

    def look(self, session: Any, need: SlotNeed) -> Capacity:
        self.asked.append(need)
        return [capacity for at, capacity in self.steps if self.waited >= at][-1]

    @property
    def waited(self) -> float:
        return self.clock() - self.began

    def slots(self, *, abort_after: int | None = None, attempt: int = 0, **spec: Any) -> Slots | None:
        self.aborted = Called(self.clock, abort_after)
        session: Any = self.session
        return await_slots(
            session,
            JobSpec(TARGET, mode=Mode.CLUSTER, **spec),
            aborted=self.aborted,
            tell=self.told.append,
            run="mine",
            attempt=attempt,
            replacing=self.replacing,
            waited_s=self.waited_s,
            look=self.look,
            clock=self.clock,
        )


def has(free: int, total: int | None = None, possible: int | None = None, **more: Any) -> Capacity:
    total = free if total is None else total
    return Capacity(total, free, total if possible is None else possible, **more)


def always(capacity: Capacity, **more: Any) -> Cluster:
    return Cluster([(0.0, capacity)], **more)


def test_slots_that_are_free_are_taken_without_a_word() -> None:
    cluster = always(has(4))

    assert cluster.slots(num_processes=4) == Slots(4, None, find_gpus=True)
    assert (cluster.told, cluster.aborted.pauses) == ([], [])


def test_what_another_run_was_given_is_not_free_though_spark_shows_it_so() -> None:
    """Two at once: the first has been given its slots, and its tasks do not run yet."""
    cluster = always(has(4), session=FakeSession(claims={"first": 3}))
    assert cluster.slots(num_processes=2, abort_after=1) is None
    assert [(1, 2)] == [(told.have, told.need) for told in cluster.told]
    assert "3 busy with run first" in cluster.told[0].reason

    session: Any = cluster.session
    slot_wait.give_back(session, "first")
    assert cluster.slots(num_processes=2)
    assert {"mine": 2} == session.claims


def test_of_two_that_look_at_the_same_time_one_waits() -> None:
    cluster = always(has(4))
    first = cluster.look

    def raced(session: Any, need: SlotNeed) -> Capacity:
        found = first(session, need)
        session.claims.setdefault("quicker", 3)  # between our look and our claim
        return found

    cluster.look = raced  # type: ignore[method-assign]
    assert cluster.slots(num_processes=2, abort_after=2) is None
    assert {"quicker": 3} == cluster.session.claims


def test_it_waits_until_they_are_free_and_says_so_once() -> None:
    busy = has(1, 4, busy=(("job 3", 3),))
    cluster = Cluster([(0.0, busy), (20.0, has(4))])
    found = cluster.slots(num_processes=4)

    assert found
    assert 20.0 <= cluster.waited < 20.0 + 2 * slot_wait.LOOK_S
    assert [(t.have, t.need, t.limit_s) for t in cluster.told] == [(1, 4, 600.0)]
    assert "3 busy with job 3" in cluster.told[0].reason


def test_each_change_is_said_once() -> None:
    steps = [(0.0, has(0, 4)), (5.0, has(1, 4)), (10.0, has(0, 4)), (15.0, has(4))]
    cluster = Cluster(steps)
    cluster.slots(num_processes=4)

    assert [t.have for t in cluster.told] == [0, 1, 0]


@pytest.mark.parametrize("limit", [0.0, 0.3, 7.0])
def test_what_does_not_come_in_time_is_told_in_numbers(limit: float) -> None:
    cluster = always(has(1, 4, busy=(("application other (app-1)", 3),)))
    with pytest.raises(CannotPlace) as caught:
        cluster.slots(num_processes=4, start_timeout_s=limit)

    assert caught.value.exit_code == 69
    assert "needs 4 slots at once; the cluster has 4, 3 busy with application other" in caught.value.message
    assert caught.value.hint == f"waited {limit:.0f} s; --start-timeout waits longer"
    assert cluster.waited == pytest.approx(limit)


# --- a cluster that is too small


@pytest.mark.parametrize("fewest", [None, 3])
def test_what_the_cluster_never_had_is_told_soon_with_what_would_fit(fewest: int | None) -> None:
    cluster = always(has(0, 0, 2))
    with pytest.raises(CannotPlace) as caught:
        cluster.slots(num_processes=20, min_processes=fewest)

    assert caught.value.exit_code == 69
    assert caught.value.message == f"needs {fewest or 20} slots at once; the cluster has 2"
    assert caught.value.hint == "use -n 2 or fewer, or -n 1:20 for as many as fit"
    assert cluster.waited == pytest.approx(slot_wait.NEVER_S, abs=slot_wait.LOOK_S)
    (told,) = cluster.told
    assert told.limit_s == slot_wait.NEVER_S
    assert told.reason == "needs 20 slots at once; the cluster has 2; more workers may still join"


def test_an_earlier_limit_counts_too() -> None:
    cluster = always(has(2))
    with pytest.raises(CannotPlace, match="-n 2 or fewer"):
        cluster.slots(num_processes=4, start_timeout_s=1.0)
    assert cluster.waited == pytest.approx(1.0)
    assert cluster.told[0].limit_s == 1.0


def test_workers_that_still_register_are_waited_for_each_anew() -> None:
    """As after the start of a whole cluster: none may be the last."""
    last = 4 * (slot_wait.NEVER_S - 1)
    cluster = Cluster([(i * (slot_wait.NEVER_S - 1), has(i + 1)) for i in range(5)])

    assert cluster.slots(num_processes=5) == Slots(5, None, find_gpus=True)
    assert cluster.waited == pytest.approx(last, abs=slot_wait.LOOK_S)


def test_workers_that_leave_may_come_back() -> None:
    full, fewer = has(1, 4), has(1, 1, 2)
    cluster = Cluster([(0.0, full), (20.0, fewer), (20.0 + slot_wait.NEVER_S - 1, full), (40.0, has(4))])

    assert cluster.slots(num_processes=4)
    assert cluster.waited >= 40


def test_a_master_that_does_not_answer_leaves_the_question_open() -> None:
    cluster = Cluster([(0.0, has(2)), (2.0, Capacity(2, 2, None)), (60.0, has(4))])

    assert cluster.slots(num_processes=4)
    assert cluster.waited >= 60


@pytest.mark.parametrize("master", ["k8s://https://m:6443", "yarn"])
def test_a_cluster_that_may_grow_is_waited_for(master: str) -> None:
    """Nobody says there how much there could be."""
    cluster = Cluster(
        [(0.0, Capacity(2, 2, None)), (90.0, Capacity(4, 4, None))], session=FakeSession(master=master)
    )
    assert cluster.slots(num_processes=4)
    assert cluster.waited >= 90


def test_a_run_that_is_started_again_waits_for_what_it_had() -> None:
    cluster = Cluster([(0.0, has(2)), (30.0, has(4))])

    assert cluster.slots(attempt=1, num_processes=4) == Slots(4, None, find_gpus=True)
    assert cluster.waited >= 30


def test_nothing_fits_is_told_with_the_cure_if_one_is_known() -> None:
    with pytest.raises(CannotPlace) as caught:
        always(has(0, 0, 0)).slots(num_processes=4)
    assert caught.value.hint == "look at what the session asks of its executors"

    with pytest.raises(CannotPlace) as caught:
        always(has(0, 0, 0, cure="start its workers first")).slots(num_processes=4)
    assert caught.value.hint == "start its workers first"


def test_advice_counts_ranks_and_not_tasks() -> None:
    cluster = always(has(3, gpu=True), session=FakeSession({EXECUTOR_GPUS: "4"}))
    with pytest.raises(CannotPlace) as caught:
        cluster.slots(num_processes=8, gpus_per_task=2, gpu=True, start_timeout_s=1.0)

    assert caught.value.hint == "use -n 6 or fewer, or -n 1:8 for as many as fit"


def test_what_cannot_be_known_is_left_to_spark() -> None:
    unknown = Capacity(explanation="the Connect server says nothing")

    says = "needs 4 slots at once; how many there are is not known here: the Connect server says nothing"
    assert always(unknown).slots(num_processes=4) == Slots(4, None, find_gpus=True, unknown=says)


def test_a_local_master_with_too_few_threads_is_told_at_once() -> None:
    cluster = always(has(2), session=FakeSession(master="local[2]"))
    with pytest.raises(CannotPlace) as caught:
        cluster.slots(num_processes=4)

    assert caught.value.hint == "use -n 2 or fewer, or -n 1:4 for as many as fit"
    assert (cluster.waited, cluster.told) == (0.0, [])


def test_a_local_master_whose_threads_are_busy_is_waited_for() -> None:
    session = FakeSession(master="local[4]")
    cluster = Cluster([(0.0, has(1, 4)), (3.0, has(4))], session=session)

    assert cluster.slots(num_processes=4)
    assert len(cluster.told) == 1


@pytest.mark.parametrize("after", [1, 7])
def test_it_can_be_called_off(after: int) -> None:
    cluster = always(has(0, 4))

    assert cluster.slots(num_processes=4, abort_after=after) is None
    assert len(cluster.aborted.pauses) == after


def test_one_called_off_beforehand_looks_at_nothing() -> None:
    cluster = always(has(4))
    aborted = threading.Event()
    aborted.set()
    session: Any = cluster.session

    spec = JobSpec(TARGET, 4, mode=Mode.CLUSTER)
    assert await_slots(session, spec, aborted=aborted, tell=cluster.told.append, look=cluster.look) is None


def test_dynamic_allocation_is_refused() -> None:
    session = FakeSession({DYNAMIC: "true"})
    with pytest.raises(CannotPlace, match="dynamicAllocation"):
        always(has(4), session=session).slots()


# --- sessions of ours that should be replaced


def replacing_session(older: str = "", *, outgrown: bool = True, ends: bool = True) -> Replacing:
    return Replacing(outgrown, lambda: older, lambda: ends)


def test_an_application_that_is_too_small_is_replaced_by_one_without_a_limit() -> None:
    cluster = always(has(1, 1, 4, outgrown=True), replacing=replacing_session())
    with pytest.raises(ReplaceSession) as replaced:
        cluster.slots(num_processes=2)
    assert (replaced.value.unlimited, cluster.waited) == (True, 0.0)
    assert replaced.value.why.startswith("1 of 2 slots fit into what was requested")


@pytest.mark.parametrize(
    "replacing", [None, replacing_session(outgrown=False), replacing_session(ends=False)]
)
def test_it_stays_where_it_cannot_be_replaced(replacing: Replacing | None) -> None:
    cluster = always(has(1, 1, 4, outgrown=True), replacing=replacing)
    assert cluster.slots(num_processes=2, abort_after=20) is None


def test_a_part_of_the_slots_is_given_back_if_somebody_has_waited_for_longer() -> None:
    """Two gangs that each hold a part would wait for each other."""
    cluster = Cluster([(0.0, has(0, 0, 4)), (3.0, has(2, 2, 4))], replacing=replacing_session("nb"))
    with pytest.raises(ReplaceSession) as replaced:
        cluster.slots(num_processes=4)
    assert not replaced.value.unlimited
    assert "2 of 4 slots are given back: nb has waited for longer" == replaced.value.why
    assert cluster.waited == pytest.approx(3.0 + slot_wait.PARTIAL_S, abs=slot_wait.LOOK_S)


def test_the_time_in_other_sessions_counts() -> None:
    cluster = always(has(0, 4), waited_s=590.0)
    with pytest.raises(CannotPlace) as caught:
        cluster.slots(num_processes=4)
    assert cluster.waited == pytest.approx(10.0)
    assert caught.value.hint == "waited 600 s; --start-timeout waits longer"


@pytest.mark.parametrize("has_now", [has(0, 0, 4), has(0, 4)])
def test_one_that_holds_nothing_or_all_gives_nothing_back(has_now: Capacity) -> None:
    cluster = always(has_now, replacing=replacing_session("nb"))
    assert cluster.slots(num_processes=4, abort_after=40) is None


def test_a_part_is_kept_if_nobody_has_waited_for_longer_or_another_run_uses_it() -> None:
    assert always(has(2, 2, 4), replacing=replacing_session()).slots(num_processes=4, abort_after=40) is None
    cluster = always(has(2, 2, 4), replacing=replacing_session("nb", ends=False))
    assert cluster.slots(num_processes=4, abort_after=40) is None


# --- elastic gangs


def test_an_elastic_gang_takes_all_if_all_are_there() -> None:
    assert always(has(8)).slots(num_processes=4, min_processes=2) == Slots(4, None, find_gpus=True)


def test_an_elastic_gang_takes_what_there_is_if_no_more_can_come() -> None:
    cluster = always(has(3, 3, 3))

    assert cluster.slots(num_processes=4, min_processes=2) == Slots(3, None, find_gpus=True)
    assert cluster.waited == 0


def test_an_elastic_gang_waits_a_while_for_more() -> None:
    cluster = always(has(2, 4))

    assert cluster.slots(num_processes=4, min_processes=2) == Slots(2, None, find_gpus=True)
    assert cluster.waited == pytest.approx(slot_wait.SETTLE_S, abs=slot_wait.LOOK_S)


def test_the_while_begins_anew_with_each_that_comes() -> None:
    """Executors that start one after the other: none of them is left out for being late."""
    cluster = Cluster([(0.0, has(2, 2, 4)), (8.0, has(3, 3, 4)), (16.0, has(4))])

    assert cluster.slots(num_processes=4, min_processes=2) == Slots(4, None, find_gpus=True)
    assert cluster.waited == pytest.approx(16.0, abs=slot_wait.LOOK_S)


def test_fewer_than_the_least_are_not_enough() -> None:
    cluster = Cluster([(0.0, has(1, 4)), (25.0, has(2, 4))])

    assert cluster.slots(num_processes=4, min_processes=2) == Slots(2, None, find_gpus=True)
    assert 35 <= cluster.waited < 36


@pytest.mark.parametrize("limit", [0.0, 5.0])
def test_at_the_end_of_its_time_an_elastic_gang_takes_what_it_has(limit: float) -> None:
    cluster = always(has(2, 4))
    found = cluster.slots(num_processes=4, min_processes=2, start_timeout_s=limit)

    assert found == Slots(2, None, find_gpus=True)
    assert cluster.waited == pytest.approx(limit)


def test_an_elastic_gang_that_lacks_its_least_is_told_of_that() -> None:
    with pytest.raises(CannotPlace) as caught:
        always(has(1)).slots(num_processes=4, min_processes=2, start_timeout_s=1.0)

    assert "needs 2 slots at once; the cluster has 1" in caught.value.message
    assert caught.value.hint == "use -n 1 or fewer, or -n 1:4 for as many as fit"


# --- GPUs

WITH_GPUS = {EXECUTOR_GPUS: "2", "spark.task.cpus": "1"}


def test_gpus_are_asked_for_where_spark_hands_them_out() -> None:
    cluster = always(has(4, gpu=True), session=FakeSession(WITH_GPUS))
    cluster.slots(num_processes=4)

    assert {need.gpus for need in cluster.asked} == {1}


class Mixed(Cluster):
    """Many cores, and so many slots with a GPU."""

    def look(self, session: Any, need: SlotNeed) -> Capacity:
        self.asked.append(need)
        return has(1, gpu=True) if need.gpus else has(8)


def test_a_run_that_can_do_without_does_so_where_gpus_could_never_be_enough() -> None:
    cluster = Mixed([], session=FakeSession(WITH_GPUS))

    assert cluster.slots(num_processes=4) == Slots(4, None, find_gpus=True)
    assert cluster.asked[-1].gpus == 0


def test_a_run_that_demands_gpus_does_not_fall_back() -> None:
    cluster = Mixed([], session=FakeSession(WITH_GPUS))
    with pytest.raises(CannotPlace, match="needs 4 GPU slots at once; the cluster has 1"):
        cluster.slots(num_processes=4, gpu=True, start_timeout_s=2.0)
    assert {need.gpus for need in cluster.asked} == {1}


def test_an_elastic_run_stays_on_gpus_if_they_are_enough_for_its_least() -> None:
    cluster = Mixed([], session=FakeSession(WITH_GPUS))

    assert cluster.slots(num_processes=4, min_processes=1) == Slots(1, None, find_gpus=True)


def test_a_run_without_gpus_looks_for_none() -> None:
    cluster = always(has(4), session=FakeSession(WITH_GPUS))

    assert cluster.slots(num_processes=4, gpu=False) == Slots(4, None, find_gpus=False)
    assert {need.gpus for need in cluster.asked} == {0}


@pytest.mark.parametrize(
    ("owned", "remote", "cure"),
    [
        (True, False, f"give it with --conf {EXECUTOR_GPUS}=2"),
        (False, False, "set it where this process's session is made"),
        (True, True, f"start the Connect server with --conf {EXECUTOR_GPUS}=2"),
    ],
)
def test_gpus_that_spark_does_not_assign_are_told_with_the_setting(
    monkeypatch: pytest.MonkeyPatch, owned: bool, remote: bool, cure: str
) -> None:
    monkeypatch.setattr(executors, "gpus_for_each", lambda _: 2)
    found = always(has(4), session=FakeSession(owned=owned, remote=remote)).slots(num_processes=2, gpu=True)

    assert found is not None
    assert found.gpu_reason == (
        f"Spark assigns none because {EXECUTOR_GPUS}, the GPUs of an executor, is not set: {cure}"
    )
    assert always(has(4)).slots(num_processes=2) == Slots(2, None, find_gpus=True)
