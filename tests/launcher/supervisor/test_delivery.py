"""The delivery of a run's files: to whom, how often, how far it is, and what ends it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from launcher.channel.connection import CHUNK
from launcher.channel.frames import Kind, WireError
from launcher.channel.handshake import Hello
from launcher.display.waits import files_line
from launcher.distributor import launch
from launcher.errors import CannotPlace
from launcher.job import Job
from launcher.spec.files.bundle import SOURCES, Bundle, Manifest, SentFile
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.request import Request
from launcher.state import events as ev
from launcher.supervisor.agents import Roster
from launcher.supervisor.delivery import Delivery
from launcher.supervisor.unsent_files import missed_note, unsent_notes
from launcher.testing import FakeClock, Script, ScriptedAgent, ScriptedCluster, ScriptedStage
from tests.launcher.supervisor.test_attempts import live

SMALL = {"train.py": b"print(1)\n", "conf/run.yaml": b"lr: 1\n"}
WORK = "/w"


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def bundle(*large: Path, small: Mapping[str, bytes] = SMALL, **changes: Any) -> Bundle:
    files = [SentFile(f"{SOURCES}{WORK}/{n}", digest_of(t), len(t)) for n, t in small.items()]
    for path in large:
        data = path.read_bytes()
        files.append(SentFile(f"{SOURCES}{WORK}/{path.name}", digest_of(data), len(data), origin=str(path)))
    manifest = Manifest(WORK, main=f"{WORK}/train.py", files=tuple(files), **changes)
    return Bundle(manifest, b"".join(small.values()))


class Agents:
    """What a delivery needs of a roster, with agents that take what they are given."""

    def __init__(self, *machines: str) -> None:
        self.hellos = [
            Hello(agent=n, host=machine, pid=1, python="3", port=1, clock_offset=0.0, machine=machine)
            for n, machine in enumerate(machines)
        ]
        self.prepared: dict[int, str] = {}
        self.unprepared: dict[int, str] = {}
        self.lacking: dict[int, tuple[int, ...]] = {}
        self.absent: dict[int, tuple[int, ...]] = {}
        self.asked: list[tuple[int, str]] = []
        self.got: dict[int, bytes] = {}
        self.pieces = 0
        self.gone: set[int] = set()
        self.busy: set[int] = set()

    def send_to(self, agent: int, kind: Kind, document: Mapping[str, Any], payloads: object) -> None:
        assert (kind, [Kind.BUNDLE]) == (Kind.PREPARE, list(cast("dict[Kind, bytes]", payloads)))
        self.asked.append((agent, document["folder"]))

    def is_here(self, agent: int) -> bool:
        return agent not in self.gone

    def has_room(self, agent: int) -> bool:
        return self.is_here(agent) and agent not in self.busy

    def send_content(self, agent: int, piece: bytes | memoryview) -> None:
        self.pieces += 1
        self.got[agent] = self.got.get(agent, b"") + bytes(piece)


def begun(sent: Bundle, agents: Agents, clock: FakeClock | None = None) -> Delivery:
    return Delivery(sent, cast("Roster", agents), clock or FakeClock())


def run_out(delivery: Delivery) -> None:
    while True:
        delivery.advance()
        if not delivery.has_more:
            return


# --- to whom


def test_the_first_agent_of_each_host_gets_the_files_and_the_others_its_folder() -> None:
    agents = Agents("a", "b", "a", "b")
    delivery = begun(bundle(), agents)
    assert [(0, ""), (1, "")] == agents.asked

    agents.lacking[0] = (0, 1)
    agents.prepared[1] = ""
    run_out(delivery)
    assert ([(3, "")], {0: b"print(1)\nlr: 1\n"}) == (agents.asked[2:], agents.got)
    assert ("a",) == delivery.late

    agents.prepared |= {0: "/tmp/x", 3: ""}
    delivery.advance()
    assert ((2, "/tmp/x"), False) == (agents.asked[-1], delivery.complete)
    agents.prepared[2] = "/tmp/x"
    assert (True, ("a",)) == (delivery.complete, delivery.unshared)


def test_a_host_that_lacks_nothing_is_sent_nothing() -> None:
    agents = Agents("a")
    delivery = begun(bundle(), agents)
    agents.prepared[0] = "/tmp/x"
    run_out(delivery)

    assert ({}, True, None) == (agents.got, delivery.complete, delivery.tell(0))


def test_only_what_is_lacked_is_sent_large_files_too(tmp_path: Path) -> None:
    large = tmp_path / "large.bin"
    large.write_bytes(os.urandom(3 * CHUNK + 5))
    agents = Agents("a")
    delivery = begun(bundle(large), agents)
    agents.lacking[0] = (2, 1)
    run_out(delivery)

    assert large.read_bytes() + SMALL["conf/run.yaml"] == agents.got[0]
    assert agents.pieces < 7


def test_thousands_of_small_files_are_few_pieces() -> None:
    small = {f"f{n}": b"%05d" % n for n in range(5000)}
    agents = Agents("a")
    delivery = begun(bundle(small=small), agents)
    agents.lacking[0] = tuple(range(5000))
    run_out(delivery)

    assert (b"".join(small.values()), 1) == (agents.got[0], agents.pieces)


def test_an_agent_without_room_does_not_hold_up_another() -> None:
    agents = Agents("a", "b")
    delivery = begun(bundle(), agents)
    agents.lacking |= {0: (0,), 1: (0,)}
    agents.busy = {0}
    run_out(delivery)

    assert [1] == list(agents.got)


def test_nothing_is_read_for_an_agent_that_left(tmp_path: Path) -> None:
    large = tmp_path / "large.bin"
    large.write_bytes(bytes(3 * CHUNK))
    agents = Agents("a")
    delivery = begun(bundle(large), agents)
    agents.lacking[0] = (2,)
    delivery.advance()
    agents.gone = {0}
    delivery.advance()

    assert (CHUNK, False) == (len(agents.got[0]), delivery.has_more)


@pytest.mark.parametrize("number", [-1, 2])
def test_a_file_that_the_run_has_not_is_no_answer(number: int) -> None:
    agents = Agents("a")
    delivery = begun(bundle(), agents)
    agents.lacking[0] = (number,)
    with pytest.raises(WireError):
        delivery.advance()


# --- what ends it


def becomes_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda path: path.write_bytes(b"short"), "has changed since"),
        (lambda path: path.write_bytes(bytes(9 * CHUNK)), "has changed since"),
        (lambda path: path.unlink(), "cannot be read any more: No such file"),
        (lambda path: becomes_a_pipe(path), "cannot be read any more: it is no regular file"),
    ],
    ids=["shorter", "longer", "gone", "a pipe"],
)
def test_a_file_that_is_another_by_now_is_told(tmp_path: Path, change: Any, why: str) -> None:
    large = tmp_path / "large.bin"
    large.write_bytes(bytes(2 * CHUNK))
    agents = Agents("a")
    delivery = begun(bundle(large), agents)
    change(large)
    agents.lacking[0] = (2,)

    with pytest.raises(CannotPlace, match=f"large.bin {why}"):
        run_out(delivery)


def test_a_host_that_cannot_take_them_is_told_with_its_reason() -> None:
    agents = Agents("a")
    delivery = begun(bundle(), agents)
    agents.unprepared[0] = "/tmp: No space left on device"
    with pytest.raises(CannotPlace, match="a cannot take the run's files: /tmp: No space left on device"):
        delivery.advance()


def test_more_patience_is_had_with_larger_files_and_with_every_sign_of_life() -> None:
    clock = FakeClock(1000.0)
    agents = Agents("a")
    delivery = begun(bundle(), agents, clock)
    sent = bundle()
    files = (replace(sent.manifest.files[0], size=3 << 30),)
    large = begun(Bundle(replace(sent.manifest, files=files)), Agents("a"), clock)
    assert 1060 <= delivery.patient_until < 1061 < 1400 < large.patient_until

    clock.advance(50)
    agents.lacking[0] = (0,)
    delivery.advance()
    assert delivery.patient_until > 1100


# --- how far it is


def test_a_short_delivery_says_nothing_and_a_long_one_not_too_often(tmp_path: Path) -> None:
    large = tmp_path / "data.bin"
    large.write_bytes(bytes(4 * CHUNK))
    agents, clock = Agents("a", "b", "c"), FakeClock()
    delivery = begun(bundle(large), agents, clock)
    assert delivery.tell(0) is None
    clock.advance(1.0)
    first = delivery.tell(0)
    assert first is not None
    assert (None, 2, "a", "") == (delivery.tell(0), first.others, first.host, first.file)

    agents.prepared[0] = ""
    agents.lacking[1] = (2,)
    delivery.advance()
    clock.advance(4.9)
    assert delivery.tell(0) is None
    clock.advance(0.1)
    second = delivery.tell(3)
    assert second is not None
    assert ("b", "data.bin", 1, CHUNK, 4 * CHUNK) == (
        second.host, second.file, second.files, second.sent, second.size,
    )  # fmt: skip
    assert (3, 1) == (second.attempt, second.others)

    clock.advance(1000.0)
    assert delivery.tell(0)
    clock.advance(100.0)
    assert delivery.tell(0) is None


def test_several_files_are_told_by_the_one_that_goes_now() -> None:
    agents, clock = Agents("a"), FakeClock()
    small = {name: bytes(CHUNK) for name in "pq"} | {"train.py": b"x"}
    small["q"] = b"q" * CHUNK
    delivery = begun(bundle(small=small), agents, clock)
    agents.lacking[0] = (0, 1, 2)
    delivery.advance()
    clock.advance(2.0)
    told = delivery.tell(0)

    assert told is not None
    assert ("q", 3, CHUNK, 2 * CHUNK + 1) == (told.file, told.files, told.sent, told.size)


@pytest.mark.parametrize(
    ("fact", "line"),
    [
        (
            {"file": "data.bin", "files": 1, "sent": 1288490188, "size": 3 << 30},
            "sending data.bin to a, 1.2 GiB of 3.0 GiB",
        ),
        (
            {"file": "x.bin", "files": 37, "sent": 1 << 20, "size": 2 << 20, "others": 1},
            "sending 37 files to a, 1.0 MiB of 2.0 MiB, now x.bin, and 1 more host to go",
        ),
        ({"others": 2}, "a compares and lays out the run's files, and 2 more hosts to go"),
    ],
)
def test_it_is_told_in_a_sentence(fact: dict[str, Any], line: str) -> None:
    assert line == files_line(ev.FilesAwaited(time=1.0, host="a", **fact))


def test_what_did_not_travel_is_told_of_hosts_that_lack_it() -> None:
    manifest = Manifest(WORK, left_out=((f"{WORK}/d/big.bin", 70 << 20),), keys=2, uncounted=True)
    large, keys, uncounted = unsent_notes(manifest, ["a", "b"])

    assert "d/big.bin (70.0 MiB)" in large
    assert "--files" in large
    assert "2 files did not travel" in keys
    assert "more files than were looked at" in uncounted
    assert [] == unsent_notes(manifest, [])
    assert [] == unsent_notes(Manifest(WORK), ["a"])
    assert "only the Python files of /root" in unsent_notes(Manifest("/root", private="/root"), ["a"])[0]


def test_what_links_lead_to_is_told_of_the_hosts_that_lack_it() -> None:
    linked = ((f"{SOURCES}{WORK}/data", "/mnt/data"), (f"{SOURCES}{WORK}/d/out", "/scratch"))
    agents = Agents("a", "b", "c", "d")
    delivery = begun(bundle(linked=linked), agents)
    agents.prepared = dict.fromkeys(range(4), "/tmp/x")
    agents.absent = {0: (0, 1), 1: (1,), 3: (0, 1, 7)}

    data, scratch = delivery.notes
    assert data.startswith("a and d lack /mnt/data (linked as data): name what is needed of it with --files")
    assert scratch.startswith("a, b and d lack /scratch (linked as d/out): ")


@pytest.mark.parametrize(
    ("missed", "named"),
    [
        ("data/char/train.bin", "data/char"),
        ("/scratch/x/files/src{work}/data/char/train.bin", "data/char"),
        ("./top.bin", "top.bin"),
        ("{work}/it's.bin", ""),
        ("{elsewhere}/vocab.txt", "{elsewhere}"),
        ("data/gone.bin", ""),
        ("sent.yaml", ""),
        (".", ""),
        ("a\0b", ""),
    ],
)
def test_a_file_that_a_rank_missed_and_that_is_here_is_named(tmp_path: Path, missed: str, named: str) -> None:
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    for file in (work / "data/char/train.bin", work / "top.bin", work / "sent.yaml", elsewhere / "vocab.txt"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    manifest = Manifest(str(work), files=(SentFile(f"{SOURCES}{work}/sent.yaml", "d", 0),))
    missed = missed.format(work=work, elsewhere=elsewhere)
    note = missed_note(manifest, f"[Errno 2] No such file or directory: {missed!r}")

    assert (f": --files {named.format(elsewhere=elsewhere)} sends it" in note) == bool(named), note
    assert bool(note) == bool(named)


# --- with agents that talk


def start(tmp_path: Path, sent: Bundle, *stages: ScriptedStage, **options: Any) -> Job:
    target = Target(TargetKind.SCRIPT, f"{WORK}/train.py")
    size = len(stages[0].scripts)
    spec = JobSpec(target, num_processes=size, mode=Mode.CLUSTER, workdir=str(tmp_path), **options)
    request = Request(spec, environ={}, python="", bundle=sent)
    return launch(request, root=tmp_path / "runs", backend=ScriptedCluster(*stages))


def met(voice: ScriptedAgent) -> Manifest:
    voice.join(machine=voice.host, addresses=["127.0.0.1", voice.host])
    voice.expect(Kind.PREPARE)
    return Manifest.decode(b"".join(f.payload for f in voice.received if f.kind is Kind.BUNDLE))


def gets(*numbers: int) -> Script:
    """An agent that lacks files and gets them, whose rank ends well."""

    def script(voice: ScriptedAgent) -> None:
        manifest = met(voice)
        voice.send(Kind.LACKS, {"files": list(numbers)})
        left = sum(manifest.files[number].size for number in numbers)
        while left:
            left -= len(voice.expect(Kind.CONTENT).payload)
        voice.send(Kind.PREPARED, {"folder": "/tmp/copies"})
        asked = [f for f in voice.received if f.kind is Kind.REACH] or [voice.expect(Kind.REACH)]
        voice.send(Kind.REACHED, {"found": dict.fromkeys(asked[0].document()["addresses"], ("eth0", ""))})
        live(voice, voice.expect(Kind.START).document())
        voice.expect(Kind.QUIT)

    return script


def test_ranks_start_when_every_host_has_its_files(tmp_path: Path) -> None:
    large = tmp_path / "large.bin"
    large.write_bytes(os.urandom(2 * CHUNK))
    job = start(tmp_path, bundle(large, keys=1), ScriptedStage([gets(0, 2), gets(1)]))
    state = job.wait(60)

    assert ("succeeded", None) == (state.phase, state.files), state.why
    assert any("did not travel" in note.text for note in state.notes)


@pytest.mark.parametrize("answer", [{"files": "all"}, {"files": [True]}, {"files": [99]}, {}])
def test_an_answer_that_makes_no_sense_ends_the_run(tmp_path: Path, answer: dict[str, Any]) -> None:
    def lies(voice: ScriptedAgent) -> None:
        met(voice)
        voice.send(Kind.LACKS, answer)
        with pytest.raises(ConnectionError):
            voice.expect(Kind.START)

    assert "succeeded" != start(tmp_path, bundle(), ScriptedStage([lies])).wait(60).phase


def test_a_host_that_is_full_refuses_the_run_before_any_rank_starts(tmp_path: Path) -> None:
    def full(voice: ScriptedAgent) -> None:
        met(voice)
        voice.send(Kind.PREPARED, {"error": "/tmp: No space left on device"})
        with pytest.raises(ConnectionError):
            voice.expect(Kind.START)

    state = start(tmp_path, bundle(), ScriptedStage([full])).wait(60)
    assert 69 == state.exit_code
    assert "host0 cannot take the run's files: /tmp: No space left on device" in state.why


def test_an_agent_that_dies_while_it_gets_files_is_replaced_if_restarts_are_allowed(tmp_path: Path) -> None:
    large = tmp_path / "large.bin"
    large.write_bytes(bytes(64 * CHUNK))  # more than a socket holds

    def dies(voice: ScriptedAgent) -> None:
        met(voice)
        voice.send(Kind.LACKS, {"files": [2]})
        voice.expect(Kind.CONTENT)
        voice.sock.close()

    stages = ScriptedStage([dies]), ScriptedStage([gets(2)])
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    assert 75 == start(tmp_path / "one", bundle(large), stages[0]).wait(60).exit_code
    state = start(tmp_path / "two", bundle(large), *stages, max_restarts=1).wait(60)
    assert ("succeeded", 1) == (state.phase, state.attempt)


def test_sizes_of_any_file_can_be_recorded() -> None:
    fact = ev.FilesAwaited(time=1.0, host="a", file="x", files=1, sent=3 << 40, size=4 << 40)

    assert fact == ev.decode(ev.encode(fact, "run"))
