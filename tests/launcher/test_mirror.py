"""Reading what an engine elsewhere recorded: order, bytes, clocks, and storage that shows things late."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from launcher import events as ev
from launcher.backends import Mirror, mirror
from launcher.backends.mirror import FieldReader, OutputTail, clock_skew
from launcher.runs import chunks, paths
from launcher.runs.chunks import Chunk
from launcher.runs.writer import RunWriter
from launcher.spec import JobSpec, Target, TargetKind

BEGAN = 1_700_000_000.0


class Field:
    """The engine elsewhere, as far as its folder tells."""

    def __init__(self, root: Path) -> None:
        self.run = root / "field"
        self.run.mkdir(parents=True)
        self.writer = RunWriter(self.run, JobSpec(Target(TargetKind.SCRIPT, "/w/train.py")))
        self.tell(ev.RunSubmitted(time=BEGAN, name="x", target="y", mode="connect", num_processes=2))

    def tell(self, *facts: ev.Event) -> None:
        for fact in facts:
            self.writer.append(fact)

    def write(self, rank: int, data: bytes, *, stream: int = paths.STDOUT, time: float = BEGAN + 1) -> None:
        chunk = Chunk(int(time * 1e9), rank, len(data), stream)
        self.writer.output([(chunk, memoryview(data))])

    def return_value(self, rank: int, data: bytes, *, size: int | None = None) -> None:
        result = self.writer.open_result(rank)
        result.write(memoryview(data))
        result.commit()
        size = len(data) if size is None else size
        self.tell(ev.RankReturned(time=BEGAN + 2, rank=rank, type="bytes", size=size))


class Home:
    """The engine here, as far as it writes down what it is told."""

    def __init__(self, root: Path, field: Field, *, attempt: int = 0, now: float = BEGAN + 10) -> None:
        self.folder = root / "home"
        self.folder.mkdir()
        self.writer = RunWriter(self.folder, JobSpec(Target(TargetKind.SCRIPT, "/w/train.py")))
        self.facts: list[ev.Event] = []
        self.reader = FieldReader(field.run, self.folder, attempt, BEGAN, lambda: now)

    def poll(self, *, final: bool = False) -> list[Mirror]:
        pieces = []
        for piece in self.reader.poll(final=final):
            for rank, value in piece.results:
                self.writer.adopt_result(rank, value)
            for fact in piece.facts:
                self.writer.append(fact)
            if piece.output:
                self.writer.output(list(piece.output))
            self.facts += piece.facts
            pieces.append(piece)
        return pieces

    @property
    def tags(self) -> list[str]:
        return [fact.tag for fact in self.facts]


@pytest.fixture
def field(tmp_path: Path) -> Field:
    return Field(tmp_path)


def log(folder: Path, rank: int, *, attempt: int = 0, stream: int = paths.STDOUT) -> bytes:
    return paths.log_file(folder, attempt, rank, stream).read_bytes()


def exited(rank: int, time: float = BEGAN + 3) -> ev.RankExited:
    return ev.RankExited(time=time, rank=rank, exit_code=0)


def verdict(state: str = "succeeded", time: float = BEGAN + 4) -> ev.RunEnded:
    return ev.RunEnded(time=time, state=state, exit_code=0, why="w")


def restart(attempt: int, *, in_place: bool = True) -> ev.GangRestarted:
    return ev.GangRestarted(time=BEGAN + 2, attempt=attempt, reason="r", in_place=in_place)


def test_a_folder_that_is_not_there_yet_has_nothing(tmp_path: Path) -> None:
    reader = FieldReader(tmp_path / "nowhere", tmp_path, 0, BEGAN)
    assert [] == list(reader.poll())
    assert [] == list(reader.poll(final=True))
    assert not reader.begun


def test_facts_samples_and_bytes_arrive_once_and_as_they_are(tmp_path: Path, field: Field) -> None:
    home = Home(tmp_path, field)
    field.write(0, b"one\r\x1b[2J\xff")
    field.tell(ev.Sampled(time=BEGAN + 1, agent=0, host="h"), exited(0))
    home.poll()
    assert [] == home.poll()
    field.write(0, b"two")
    field.write(1, b"", stream=paths.STDERR)
    field.tell(exited(1))
    home.poll(final=True)

    assert b"one\r\x1b[2J\xfftwo" == log(home.folder, 0)
    assert ["sampled", "rank_exited", "rank_exited"] == home.tags


def test_bytes_come_before_the_facts_that_follow_them(tmp_path: Path, field: Field) -> None:
    home = Home(tmp_path, field)
    field.write(0, b"last words")
    field.tell(exited(0))
    pieces = home.poll()

    assert [bool(p.output) for p in pieces] == [True, False]


def test_much_output_comes_in_pieces(tmp_path: Path, field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "PIECE_BYTES", 10_000)
    monkeypatch.setattr(mirror, "_RECORDS", 7)
    source = random.Random(1)
    wrote = {0: b"", 1: b""}
    for _ in range(100):
        rank, data = source.randrange(2), source.randbytes(source.randrange(3000))
        wrote[rank] += data
        field.write(rank, data)
    home = Home(tmp_path, field)
    pieces = home.poll(final=True)

    assert wrote == {rank: log(home.folder, rank) for rank in (0, 1)}
    assert max(sum(len(data) for _, data in p.output) for p in pieces) < 13_000


def test_bytes_that_storage_does_not_show_yet_are_waited_for(tmp_path: Path, field: Field) -> None:
    field.write(0, b"first")
    field.write(0, b"second")
    path = paths.log_file(field.run, 0, 0, paths.STDOUT)
    path.write_bytes(b"firstse")
    tail = OutputTail(field.run, 0)

    assert [b"first"] == [bytes(data) for pieces in tail.poll() for _, data in pieces]
    assert [] == list(tail.poll())
    path.write_bytes(b"firstsecond")
    assert [b"second"] == [bytes(data) for pieces in tail.poll() for _, data in pieces]


def test_bytes_that_never_come_are_not_promised(tmp_path: Path, field: Field) -> None:
    field.write(0, b"first")
    field.write(1, b"all of it")
    paths.log_file(field.run, 0, 0, paths.STDOUT).write_bytes(b"fi")
    home = Home(tmp_path, field)
    home.poll(final=True)

    assert (b"fi", b"all of it") == (log(home.folder, 0), log(home.folder, 1))
    records = (paths.log_folder(home.folder, 0) / paths.CHUNKS).read_bytes()[len(chunks.MAGIC) :]
    assert [2, 9] == [chunk.length for chunk in chunks.unpack(records)]


def test_a_torn_last_fact_waits_for_its_rest(tmp_path: Path, field: Field) -> None:
    home = Home(tmp_path, field)
    line = ev.encode(exited(0), "x")
    with open(field.run / paths.EVENTS, "ab", buffering=0) as file:
        file.write(line[:20])
        home.poll()
        assert [] == home.facts
        file.write(line[20:])
    home.poll()
    assert ["rank_exited"] == home.tags


def test_a_value_is_there_before_it_is_told(tmp_path: Path, field: Field) -> None:
    home = Home(tmp_path, field)
    field.return_value(0, b"value")
    home.poll()

    assert ["rank_returned"] == home.tags
    assert b"value" == paths.result_file(home.folder, 0).read_bytes()
    assert ["00000.pickle"] == [p.name for p in (home.folder / paths.RESULT).iterdir()]


def test_a_value_that_is_not_whole_yet_holds_back_what_follows(tmp_path: Path, field: Field) -> None:
    home = Home(tmp_path, field)
    field.return_value(0, b"val", size=5)
    field.tell(exited(0))
    home.poll()
    assert [] == home.facts
    paths.result_file(field.run, 0).write_bytes(b"value")
    home.poll()

    assert ["rank_returned", "rank_exited"] == home.tags
    assert b"value" == paths.result_file(home.folder, 0).read_bytes()


def test_attempts_keep_their_own_output_and_the_last_its_values(tmp_path: Path, field: Field) -> None:
    field.return_value(0, b"old")
    field.write(0, b"before")
    field.tell(restart(1))
    field.write(0, b"after")
    field.return_value(0, b"new")
    home = Home(tmp_path, field)
    home.poll(final=True)

    assert (b"before", b"after") == (log(home.folder, 0), log(home.folder, 0, attempt=1))
    assert b"new" == paths.result_file(home.folder, 0).read_bytes()
    assert 1 == home.writer.state.attempt


def test_an_attempt_ends_for_us_once_storage_has_settled(
    tmp_path: Path, field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, field)
    field.tell(restart(1))
    home.poll()
    assert [] == home.facts
    monkeypatch.setattr(mirror, "SETTLE_S", 0.0)
    home.poll()
    assert ["gang_restarted"] == home.tags


def test_a_later_stage_says_nothing_of_what_was_before(tmp_path: Path, field: Field) -> None:
    field.tell(restart(1))
    field.write(0, b"in attempt 1")
    home = Home(tmp_path, field, attempt=1)
    home.writer.append(restart(1))
    home.poll(final=True)

    assert [] == home.facts
    assert b"in attempt 1" == log(home.folder, 0, attempt=1)


def test_its_verdict_is_the_verdict(tmp_path: Path, field: Field) -> None:
    home = Home(tmp_path, field)
    field.tell(verdict("failed"))
    home.poll(final=True)
    assert (["run_ended"], True, False) == (home.tags, home.reader.ended, home.reader.left)


@pytest.mark.parametrize("end", [verdict("lost"), restart(1, in_place=False)])
def test_after_a_loss_the_verdict_is_ours(tmp_path: Path, field: Field, end: ev.Event) -> None:
    home = Home(tmp_path, field)
    field.tell(exited(0), end, exited(1))
    home.poll(final=True)
    assert (["rank_exited"], True, True) == (home.tags, home.reader.ended, home.reader.left)


@pytest.mark.parametrize(
    ("first", "last", "skew"),
    [
        (1001.0, 1002.0, 0.0),  # possible as it is
        (4601.0, 4602.0, 3592.0),  # an hour ahead: it was read at 1010
        (400.0, 401.0, -600.0),  # behind: it cannot have begun before it was asked for
        (1000.0, 1010.0, 0.0),
    ],
)
def test_two_clocks_are_related_by_as_little_as_causes_allow(first: float, last: float, skew: float) -> None:
    assert skew == clock_skew(first, last, began=1000.0, now=1010.0)


def test_everything_is_moved_to_our_clock(tmp_path: Path, field: Field) -> None:
    home = Home(tmp_path, field, now=BEGAN - 3600 + 5)
    home.reader._began = BEGAN - 3600
    field.write(0, b"x", time=BEGAN + 1)
    field.tell(exited(0, BEGAN + 5))
    pieces = home.poll(final=True)

    assert [BEGAN - 3600 + 5] == [fact.time for fact in home.facts]
    assert int((BEGAN - 3600 + 1) * 1e9) == pieces[0].output[0][0].time_ns
