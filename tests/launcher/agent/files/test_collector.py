"""What an agent sends of its ranks' files, and when."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.agent.files import collector as module
from launcher.agent.files.collector import Collector
from launcher.agent.files.scan import Scan, scan
from launcher.agent.files.writers import Look
from launcher.channel.frames import Decoder, Frame, Kind

WORKDIR = "/home/ann/proj"
LIMIT_S = 20.0


class Home:
    """The other end of the connection: takes frames, and puts files together."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.files: dict[str, bytes] = {}
        self.begun: dict[str, dict[str, Any]] = {}
        self.pending = 0
        self._decoder = Decoder()
        self._current = ""
        self._data = b""

    def put(self, *parts: bytes) -> None:
        for frame in self._decoder.feed(b"".join(parts)):
            self.frames.append(frame)
            self._take(frame)

    def documents(self, kind: Kind) -> list[dict[str, Any]]:
        return [frame.document() for frame in self.frames if frame.kind is kind]

    def _take(self, frame: Frame) -> None:
        match frame.kind:
            case Kind.FILE_BEGIN:
                document = frame.document()
                self._current, self._data = document["path"], b""
                self.begun[self._current] = document
            case Kind.FILE_DATA:
                self._data += frame.payload
            case Kind.FILE_END if not self.begun[self._current]["link"]:
                assert frame.document()["digest"] == hashlib.sha256(self._data).hexdigest()
                assert len(self._data) == self.begun[self._current]["size"]
                self.files[self._current] = self._data
            case _:
                pass


class Host:
    """A working folder with its collector, and the loop that an agent has."""

    def __init__(self, root: Path) -> None:
        self.root, self.home = root, Home()
        self.folder = root / WORKDIR.lstrip("/")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.collector = Collector(str(root), WORKDIR, self.home.put, lambda: self.home.pending)

    def until(self, done: Callable[[], bool]) -> None:
        end = time.monotonic() + LIMIT_S
        while not done():
            assert time.monotonic() < end, json.dumps([f.kind.name for f in self.home.frames[-20:]])
            wait = self.collector.timeout()
            ready, _, _ = select.select([*self.collector.sources], [], [], 1.0 if wait is None else wait)
            for descriptor in ready:
                self.collector.sources[descriptor]()
            self.collector.advance()

    def sweep(self, *deaths: float) -> dict[str, Any]:
        before = len(self.home.documents(Kind.SWEPT))
        self.collector.sweep(deaths)
        self.until(lambda: len(self.home.documents(Kind.SWEPT)) > before)
        return self.home.documents(Kind.SWEPT)[-1]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    with contextlib.closing(made.collector):
        yield made


def test_a_file_comes_once_it_is_closed(host: Host) -> None:
    (host.folder / "snapshot.pt").write_bytes(b"whole" * 1000)
    host.until(lambda: "snapshot.pt" in host.home.files)
    assert host.home.files["snapshot.pt"] == b"whole" * 1000


def test_a_file_that_stays_open_comes_when_it_is_quiet(host: Host) -> None:
    with open(host.folder / "events.log", "wb", buffering=0) as file:
        file.write(b"step 1\n")
        host.until(lambda: "events.log" in host.home.files)
    assert host.home.files["events.log"] == b"step 1\n"


def test_paths_are_those_of_the_caller(host: Host) -> None:
    (host.folder / "a/b").mkdir(parents=True)
    (host.folder / "a/b/x").write_bytes(b"in")
    (host.root / "home/ann/other").mkdir()
    (host.root / "home/ann/other/y").write_bytes(b"beside")
    host.sweep()
    assert host.home.files == {"a/b/x": b"in", "/home/ann/other/y": b"beside"}


def test_what_was_sent_to_the_host_does_not_come_back(tmp_path: Path) -> None:
    (tmp_path / "home/ann/proj").mkdir(parents=True)
    (tmp_path / "home/ann/proj/train.py").write_bytes(b"print()")
    host = Host(tmp_path)
    (host.folder / "new").write_bytes(b"")
    host.sweep()
    assert host.home.files == {"new": b""}
    host.collector.close()


def test_the_rank_that_has_a_file_open_is_named(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        host.collector._writers, "rank_with", lambda path: 5 if path.endswith("tmp") else None
    )
    (host.folder / "model.tmp").write_bytes(b"1")
    (host.folder / "model.tmp").rename(host.folder / "model.pt")
    host.until(lambda: "model.pt" in host.home.files)
    assert host.home.begun["model.pt"]["rank"] == 5


def test_links_are_told_and_not_followed(host: Host) -> None:
    (host.folder / "latest").symlink_to("/etc/passwd")
    host.sweep()
    assert host.home.begun["latest"]["link"] == "/etc/passwd"
    assert host.home.files == {}


def test_what_is_deleted_is_told(host: Host) -> None:
    (host.folder / "old.pt").write_bytes(b"1")
    host.until(lambda: "old.pt" in host.home.files)
    (host.folder / "old.pt").unlink()
    host.until(lambda: bool(host.home.documents(Kind.FILES_GONE)))
    assert host.home.documents(Kind.FILES_GONE) == [{"paths": ["old.pt"]}]


def test_nothing_is_sent_while_much_waits_on_the_connection(host: Host) -> None:
    host.home.pending = module.ROOM
    (host.folder / "a").write_bytes(b"1")
    host.until(lambda: bool(host.collector._ledger.waiting))
    assert host.collector.timeout() is None
    host.collector.advance()
    assert host.home.frames == []
    host.home.pending = 0
    host.until(lambda: "a" in host.home.files)


def test_a_file_that_changes_while_it_is_sent_comes_whole_later(host: Host) -> None:
    path = host.folder / "model.pt"
    path.write_bytes(b"1" * (1 << 20))
    host.until(lambda: bool(host.home.documents(Kind.FILE_BEGIN)))
    if "model.pt" not in host.home.files:  # else it was too quick
        path.write_bytes(b"2" * (1 << 20))
    expected = path.read_bytes()
    host.until(lambda: host.home.files.get("model.pt") == expected)


def test_a_file_that_never_rests_comes_after_the_ranks_end(host: Host) -> None:
    path = host.folder / "busy"
    for i in range(50):
        path.write_bytes(b"%d" % i)
        host.collector.on_changes()
        host.collector.advance()
    host.sweep()
    assert host.home.files["busy"] == b"49"


def test_the_sweep_says_what_will_come_and_when_all_has(host: Host) -> None:
    for i in range(300):
        (host.folder / f"{i}.bin").write_bytes(b"x" * i)
    assert host.sweep() == {"left": {}, "left_count": 0}
    [counted] = host.home.documents(Kind.SWEEPING)
    assert counted["files"] + len(host.home.files) >= 300
    assert {int(p.split(".")[0]): len(d) for p, d in host.home.files.items()} == {i: i for i in range(300)}
    assert host.home.frames[-1].kind is Kind.SWEPT


def test_what_a_killed_rank_was_writing_does_not_come_and_goes_away(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, torn = host.folder / "good.pt", host.folder / "torn.pt"
    alive = {0}
    monkeypatch.setattr(host.collector._writers, "look", lambda: Look(frozenset(alive), 1))
    good.write_bytes(b"whole")
    host.until(lambda: "good.pt" in host.home.files)
    alive.clear()
    torn.write_bytes(b"ha")
    host.collector.on_changes()
    host.until(lambda: not host.collector._ledger.next_due())  # it would be sent by now
    answer = host.sweep(time.time())
    assert answer == {"left": {"torn.pt": module.TORN}, "left_count": 1}
    assert host.home.files == {"good.pt": b"whole"}
    assert not torn.exists()


def test_what_home_refuses_is_dropped_and_tried_once_more_at_the_end(host: Host) -> None:
    (host.folder / "large").write_bytes(b"x" * (4 << 20))
    host.until(lambda: bool(host.home.documents(Kind.FILE_BEGIN)))
    host.collector.on_refused("large")
    host.until(lambda: not host.collector._has_more)
    begun = len(host.home.documents(Kind.FILE_BEGIN))
    host.sweep()
    assert len(host.home.documents(Kind.FILE_BEGIN)) == begun + 1
    assert len(host.home.files["large"]) == 4 << 20


def test_a_file_that_is_gone_before_it_is_sent_is_left_out(host: Host) -> None:
    host.home.pending = module.ROOM
    (host.folder / "a").write_bytes(b"1")
    (host.folder / "b").write_bytes(b"2")
    host.until(lambda: len(host.collector._ledger.waiting) == 2)
    (host.folder / "a").unlink()
    host.home.pending = 0
    host.sweep()
    assert host.home.files == {"b": b"2"}


def test_two_sweeps_send_each_file_once(host: Host) -> None:
    (host.folder / "a").write_bytes(b"1")
    host.sweep()
    host.sweep()
    assert len(host.home.documents(Kind.FILE_BEGIN)) == 1


def test_names_of_any_bytes_travel(host: Host) -> None:
    name = os.fsdecode(b"caf\xe9 \n\x1b[2J.pt")
    (host.folder / name).write_bytes(b"1")
    host.sweep()
    assert host.home.files == {name: b"1"}


def test_a_scan_that_began_before_the_ranks_end_does_not_stand_for_the_last_one(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanning, go_on = threading.Event(), threading.Event()

    def slow(root: str) -> Scan:
        result = scan(root)
        scanning.set()
        assert go_on.wait(LIMIT_S)
        return result

    monkeypatch.setattr(module, "scan", slow)
    (host.folder / "log").write_bytes(b"begun")
    host.until(scanning.is_set)
    (host.folder / "log").write_bytes(b"begun and ended")
    (host.folder / "late").write_bytes(b"1")
    host.collector.sweep([])
    host.collector.advance()
    go_on.set()
    host.until(lambda: bool(host.home.documents(Kind.SWEPT)))
    assert host.home.files == {"log": b"begun and ended", "late": b"1"}


def test_a_file_that_a_process_outside_still_writes_is_left_out_and_named(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = host.folder / "busy"
    path.write_bytes(b"")
    monkeypatch.setattr(host.collector, "_announce", lambda *_: path.write_bytes(path.read_bytes() + b"x"))
    assert host.sweep() == {"left": {"busy": module.CHANGED}, "left_count": 1}


def test_a_file_that_cannot_be_read_is_named_with_the_reason(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = host.folder / "secret"
    secret.write_bytes(b"1")
    open_file = os.open

    def refuse(path: str, flags: int, mode: int = 0o777) -> int:
        if os.fspath(path) == str(secret):  # root reads everything
            raise PermissionError(13, "Permission denied")
        return open_file(path, flags, mode)  # other threads open files too

    monkeypatch.setattr(os, "open", refuse)
    assert host.sweep() == {"left": {"secret": "Permission denied"}, "left_count": 1}
