"""Run folders as anybody may hand them to us: recorded runs of several shapes, and ways to spoil them.

All of it is decided by a seeded generator, so that a number says which mutant it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from console.demo import record_demo
from launcher.runs import curves, paths
from launcher.runs.logs import writer
from launcher.runs.logs import writer as chunks
from launcher.runs.status import stored_status, write_status
from launcher.runs.writer import RunWriter
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.places import Assignment, Device
from launcher.state import events as ev
from launcher.state.events import Checkout

SECRET = "hunter2-which-is-nobody's-business"
START = 1_767_261_600.0
ERROR = 'Traceback (most recent call last):\n  File "/w/t.py", line 3, in main\nValueError: no\n'
PLACES = tuple(
    Assignment(r, 2, r, 2, 0, 1, 0, "gpu-01", (Device(r, f"GPU-{r}", "H100", 80 << 30),)) for r in (0, 1)
)


def _spec(name: str) -> JobSpec:
    target = Target(TargetKind.SCRIPT, "/w/t.py", args=("--lr", "0.1"))
    return JobSpec(target, num_processes=2, name=name, workdir="/w", env={"A": "1"}, timeout_s=60.0)


def _begun(attempt: int = 0, at: float = START) -> list[ev.Event]:
    return [
        ev.GangPlaced(time=at + 1, attempt=attempt, ranks=PLACES),
        *(ev.RankStarted(time=at + 2, attempt=attempt, rank=r, pid=100 + r) for r in (0, 1)),
        *(ev.RankEntered(time=at + 3, attempt=attempt, rank=r) for r in (0, 1)),
        *(
            ev.RankReported(time=at + 3 + s, attempt=attempt, rank=r, step=s, metrics={"loss": 1.0 / (s + 1)})
            for s in range(4)
            for r in (0, 1)
        ),
        ev.Sampled(
            time=at + 4,
            attempt=attempt,
            agent=0,
            host="gpu-01",
            system=ev.HostSample(cpu=3.0, memory_used=1 << 30, memory_total=1 << 34, load1=0.5),
            devices=(ev.DeviceSample(uuid="GPU-0", index=0, util=50.0, memory_used=9, memory_total=10),),
            ranks=tuple(ev.RankSample(rank=r, cpu=99.0, rss=1 << 28, processes=3) for r in (0, 1)),
        ),
    ]


def _asked(name: str) -> list[ev.Event]:
    return [
        ev.RunSubmitted(
            time=START, name=name, target="/w/t.py", mode="local", num_processes=2, user="ada", host="here"
        ),
        ev.OriginFound(time=START, revision="0123456789abcdef", branch="main", dirty=True, root="/w",
                       python="3.12.4", beside=Checkout("/x", "ff"),
                       packages={"torch": "2.9", "numpy": "2.3"}),
        ev.SparkReady(time=START, application="app-1", master="spark://h:7077", version="4", ui="http://h"),
        ev.SlotsAwaited(time=START, have=1, need=2, limit_s=600.0),
        ev.DeliveryChosen(time=START, way="spool", reason="no way back"),
        ev.RowsAwaited(time=START, rank=1, rows=1 << 30, over=True),
        ev.LogAwaited(time=START, rank=1, over=True),
        ev.RankPaused(time=START, rank=1, reason="debugging", over=True),
        ev.RanksSilent(time=START, ranks=(1,), since=START, hung=True, waiting=(0,)),
        ev.RanksResumed(time=START, ranks=(1,)),
        ev.FilesAwaited(time=START, host="gpu-01", file="data.bin", files=1, sent=1 << 30, size=3 << 30),
        ev.AgentJoined(time=START, agent=0, host="gpu-01", pid=9, python="3.12", devices=PLACES[0].devices),
    ]  # fmt: skip


def _gone(attempt: int = 0, at: float = START) -> list[ev.Event]:
    return [
        ev.CleanupProven(time=at + 8, attempt=attempt, agent=0, host="gpu-01", terminated=1, survivors=(7,)),
        ev.AgentDeparted(time=at + 8, attempt=attempt, agent=0, host="gpu-01", expected=True),
    ]


def succeeded() -> list[ev.Event]:
    """Both ranks return something."""
    values: tuple[Any, ...] = ({"loss": 0.5, "of": [1, None, "x"]}, 7)
    ended = [
        fact
        for r, value in enumerate(values)
        for fact in (
            ev.RankReturned(time=START + 7, rank=r, type="dict", size=40, value=value, json=True),
            ev.RankExited(time=START + 7, rank=r, exit_code=0, duration_s=4.0),
        )
    ]
    end = ev.RunEnded(time=START + 9, state="succeeded", exit_code=0, why="both ranks succeeded")
    return [*_asked("well"), *_begun(), *ended, *_gone(), end]


def failed() -> list[ev.Event]:
    """Rank 1 raises, and rank 0 is ended."""
    return [
        *_asked("badly"),
        *_begun(),
        ev.RankRaised(time=START + 6, rank=1, kind="ValueError", message="no", traceback=ERROR,
                      frames=(("/w/t.py", 3, "main"),),
                      excerpts=(ev.SourceExcerpt(file="/w/t.py", line=3, function="main", first=2,
                                                 lines=("def main():", "    raise ValueError('no')")),),
                      variables=(ev.Variable(name="lr", type="float", about="plain", text="0.1"),),
                      collectives=(ev.CollectiveCall(group="g", number=3, operation="reduce", sizes="[4]"),)),
        ev.RankExited(time=START + 7, rank=1, exit_code=1, oom_kills=0),
        ev.XidLogged(time=START + 7, agent=0, host="gpu-01", uuid=PLACES[0].devices[0].uuid, index=0, xid=31),
        ev.StopRequested(time=START + 7, by="rank", reason="rank 1 failed", grace_s=10.0),
        ev.RankExited(time=START + 8, rank=0, exit_code=143, signal="SIGTERM"),
        *_gone(),
        ev.CauseFound(time=START + 9, id="cuda-oom", certainty="certain", rank=1, text="rank 1 ran out",
                      evidence=("it held 78 GiB",), remedy=("use less", "use more GPUs")),
        ev.RunEnded(time=START + 9, state="failed", exit_code=1, why="rank 1 raised ValueError", rank=1),
    ]  # fmt: skip


def stopped() -> list[ev.Event]:
    """A person stops it, and the folder has lost something meanwhile."""
    return [
        *_asked("on request"),
        *_begun(),
        ev.RecordingStopped(time=START + 5, reason="No space left on device"),
        ev.StopRequested(time=START + 6, by="person", reason="stopped on request", exit_code=143),
        *(ev.RankExited(time=START + 7, rank=r, exit_code=143, signal="SIGTERM") for r in (0, 1)),
        ev.RecordsLost(time=START + 8, output_bytes=100, facts=2),
        *_gone(),
        ev.RunEnded(time=START + 9, state="stopped", exit_code=143, why="stopped on request"),
    ]


def restarted() -> list[ev.Event]:
    """The first attempt loses an executor, the second one succeeds."""
    return [
        *_asked("again"),
        *_begun(),
        ev.ExecutorLost(time=START + 6, reason="worker lost", executor="1", host="gpu-01", task=0),
        ev.TaskLost(time=START + 6, reason="killed", task=0),
        *_gone(),
        ev.GangRestarted(time=START + 10, attempt=1, reason="executor 1 was lost", in_place=False),
        *_begun(1, START + 10),
        *(ev.RankExited(time=START + 17, attempt=1, rank=r, exit_code=0) for r in (0, 1)),
        *_gone(1, START + 10),
        ev.RunEnded(time=START + 19, attempt=1, state="succeeded", exit_code=0, why="both ranks succeeded"),
    ]


def hung() -> list[ev.Event]:
    """No progress: a warning, stacks, and the end."""
    return [
        *_asked("silent"),
        *_begun(),
        ev.LimitNear(time=START + 5, limit="progress", limit_s=9.0, at=START + 9),
        ev.NoteMade(time=START + 5, text="a note", level="warning"),
        *(ev.StacksTaken(time=START + 6, rank=r, text="Thread 0x1:\n  File t.py, line 3\n") for r in (0, 1)),
        ev.StopRequested(time=START + 6, by="limit", reason="no progress for 9 s", exit_code=125),
        *(ev.RankExited(time=START + 7, rank=r, exit_code=143, signal="SIGTERM") for r in (0, 1)),
        *_gone(),
        ev.RunEnded(time=START + 9, state="failed", exit_code=125, why="no progress for 9 s"),
    ]


SHAPES: tuple[Callable[[], list[ev.Event]], ...] = (succeeded, failed, stopped, restarted, hung)


def record(folder: Path, facts: list[ev.Event]) -> Path:
    """Write a run that tells these facts; its ranks print a few lines in each attempt."""
    folder.mkdir(parents=True, mode=0o700)
    writer = RunWriter(folder, _spec("x"), payload=b"a pickle")
    for fact in facts:
        writer.append(fact)
        if isinstance(fact, ev.RankEntered):
            for stream in (paths.STDOUT, paths.STDERR):
                data = f"hello from {fact.rank}\n\x1b[31mred\x1b[0m\n  5%|▌ |\r 50%|█ |\nunfinished".encode()
                piece = chunks.Chunk(int(fact.time * 1e9), fact.rank, len(data), stream)
                writer.output([(piece, memoryview(data))])
        if isinstance(fact, ev.RankReturned):
            value = writer.open_result(fact.rank)
            value.write(memoryview(b"a pickle"))
            value.commit()
    writer.close()
    return folder


def record_all(root: Path) -> list[Path]:
    """One run of each shape, and a short one of eight made-up GPUs."""
    made = [record(root / f"20260101-1000{n:02d}-000abc", shape()) for n, shape in enumerate(SHAPES)]
    made.append(record_demo(root, ranks=2, seconds=12, fail=True))
    for run in made:
        status = stored_status(run)
        assert status is not None
        write_status(run, replace(status, owner=replace(status.owner, start=1)))  # who wrote it is gone
    return made


# --- values that are wrong, or make no sense ------------------------------------------------------------

WRONG: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 3, 10**18, -(10**18), 2**64, 10**400, 1e308, -1.5, 253402300799, 1e12,
    2**31, 2**20, float("nan"), float("inf"), float("-inf"), "", "q", "nan", "inf", "-inf", "running",
    "succeeded", "lost", "\x1b]0;PWNED\x07", "\u202e\u061c\ufff9", "\x00", "a\nb\rc", "\ud800",
    "[red]x[/red]", "x" * 5000, "/etc/passwd", "../../outside/secret",
    [], [[]], [1], ["q"], [None], [[["q", 1, "z"]]], {}, {"q": 1}, {"": []}, [{}],
)  # fmt: skip


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a document, with every key or index of it."""
    if isinstance(value, dict):
        for key in list(value):
            yield value, key
            yield from _places(value[key])
    elif isinstance(value, list):
        for index in range(len(value)):
            yield value, index
            yield from _places(value[index])


def _with_other_leaf(document: Any, chance: random.Random) -> Any:
    places = list(_places(document))
    if not places or chance.random() < 0.02:
        return chance.choice(WRONG)
    holder, key = chance.choice(places)
    what = chance.random()
    if what < 0.75:
        holder[key] = chance.choice(WRONG)
    elif what < 0.9:
        del holder[key]
    elif isinstance(holder, dict):
        holder[chance.choice(["q", "event", "schema", "rank", "\x1b[2J"])] = chance.choice(WRONG)
    else:
        holder *= chance.choice([2, 50])
    return document


def _dumped(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode("utf-8", "surrogatepass")


# --- ways to spoil a file --------------------------------------------------------------------------------


@dataclass(slots=True)
class Spoiler:
    """Spoils files of one folder, as its generator decides."""

    run: Path
    outside: Path
    chance: random.Random

    def spoil(self) -> str:
        """One to three ways; what was done."""
        return "; ".join(self._once() for _ in range(self.chance.choice([1, 1, 1, 2, 3])))

    def _once(self) -> str:
        files = sorted(p for p in self.run.rglob("*") if p.is_file() and not p.is_symlink())
        folders = sorted(p for p in self.run.rglob("*") if p.is_dir() and not p.is_symlink())
        if folders and self.chance.random() < 0.06:
            path, way = self.chance.choice(folders), self.chance.choice(_FOLDER_WAYS)
        elif files:
            path = self.chance.choice(files)
            weighted = _ways_of(path)
            way = self.chance.choice([*_FILE_WAYS, *weighted])
        else:
            return "nothing left"
        with contextlib.suppress(OSError, ValueError):  # a second way may meet what the first one made
            way(self, path)
        return f"{way.__name__.strip('_')} {path.relative_to(self.run)}"

    def counterpart(self, path: Path) -> Path:
        return self.outside / path.relative_to(self.run)


def _ways_of(path: Path) -> tuple[Way, ...]:
    """The ways that suit what is in a file."""
    if path.name == paths.CHUNKS:
        return _ORDER_WAYS
    if path.parent.name == paths.CURVES:
        return _NAME_WAYS if path.name == paths.CURVE_NAMES else _POINT_WAYS
    return _TEXT_WAYS if ".json" in path.name else ()


def _leaf(spoiler: Spoiler, path: Path) -> None:
    data = path.read_bytes()
    if path.suffix == ".json":
        path.write_bytes(_dumped(_with_other_leaf(json.loads(data), spoiler.chance)))
        return
    lines = data.splitlines()
    at = spoiler.chance.randrange(len(lines))
    lines[at] = _dumped(_with_other_leaf(json.loads(lines[at]), spoiler.chance))
    path.write_bytes(b"\n".join(lines) + b"\n")


def _lines(spoiler: Spoiler, path: Path) -> None:
    lines, chance = path.read_bytes().splitlines(keepends=True), spoiler.chance
    way = chance.randrange(4)
    if way == 0:
        chance.shuffle(lines)
    elif way == 1:
        lines += chance.choices(lines, k=3)
    elif way == 2:
        lines = chance.sample(lines, k=max(len(lines) // 2, 1))
    else:
        lines.insert(
            chance.randrange(len(lines)), chance.choice([b"\n", b"{}\n", b"[" * 5000, b"\xff\n", b"1e999\n"])
        )
    path.write_bytes(b"".join(lines))


def _newer(spoiler: Spoiler, path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"schema":1', b'"schema":%d' % spoiler.chance.choice([2, 99, 10**30])))


def _truncated(spoiler: Spoiler, path: Path) -> None:
    os.truncate(path, spoiler.chance.randrange(path.stat().st_size + 1))


def _overwritten(spoiler: Spoiler, path: Path) -> None:
    data, chance = bytearray(path.read_bytes()), spoiler.chance
    for _ in range(chance.choice([1, 4, 40])):
        if data:
            data[chance.randrange(len(data))] = chance.randrange(256)
    path.write_bytes(data)


def _nulls(spoiler: Spoiler, path: Path) -> None:
    data = path.read_bytes()
    at = spoiler.chance.randrange(len(data) + 1)
    path.write_bytes(data[:at] + bytes(spoiler.chance.choice([1, 100, 5000])) + data[at:])


def _random(spoiler: Spoiler, path: Path) -> None:
    path.write_bytes(spoiler.chance.randbytes(spoiler.chance.choice([1, 100, 5000])))


def _huge(spoiler: Spoiler, path: Path) -> None:
    most = 1 << 20 if path.suffix in (".out", ".err") else 64 << 20  # what is output is printed, all of it
    size = spoiler.chance.choice([64 << 10, 1 << 20, 1 << 20, 1 << 20, most])
    if spoiler.chance.random() < 0.5:
        os.truncate(path, path.stat().st_size + size)  # a hole: NULs
    else:
        with open(path, "ab") as file:
            file.write(b"A" * size)


def _removed(spoiler: Spoiler, path: Path) -> None:
    path.unlink()


def _empty(spoiler: Spoiler, path: Path) -> None:
    path.write_bytes(b"")


def _link(spoiler: Spoiler, path: Path) -> None:
    path.unlink()
    path.symlink_to(spoiler.counterpart(path))


def _plain_link(spoiler: Spoiler, path: Path) -> None:
    path.unlink()
    path.symlink_to(spoiler.outside / "secret")


def _loop(spoiler: Spoiler, path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def _zeros(spoiler: Spoiler, path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def _fifo(spoiler: Spoiler, path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(spoiler: Spoiler, path: Path) -> None:
    path.unlink()
    path.mkdir()


def _socket(spoiler: Spoiler, path: Path) -> None:
    path.unlink()
    make_socket(path)


def make_socket(path: Path) -> None:
    """A socket's name; a short way to it, because names of sockets are."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def _locked(spoiler: Spoiler, path: Path) -> None:
    path.chmod(0)


def _records(spoiler: Spoiler, path: Path) -> None:
    chance, size = spoiler.chance, writer.SIZE
    data = bytearray(path.read_bytes())
    count = (len(data) - len(writer.MAGIC)) // size
    if count < 1:
        return
    for _ in range(chance.choice([1, 1, 3])):
        at = len(writer.MAGIC) + chance.randrange(count) * size
        old = next(writer.unpack_chunk(bytes(data[at : at + size])), writer.Chunk(0, 0, 0, 1))
        new = chance.choice([
            replace(old, stream=chance.randrange(256)),
            replace(old, rank=chance.choice([2, 7, 1 << 19, 1 << 31, (1 << 32) - 1])),
            replace(old, length=chance.choice([0, 1, 1 << 20, (1 << 32) - 1])),
            replace(old, time_ns=chance.choice([0, 1, (1 << 63), (1 << 64) - 1])),
        ])  # fmt: skip
        data[at : at + size] = writer.pack_chunk(new)
    path.write_bytes(data)


def _more_records(spoiler: Spoiler, path: Path) -> None:
    count = spoiler.chance.choice([1, 100, 10_000])
    with open(path, "ab") as file:
        file.write(writer.pack_chunk(writer.Chunk(int(START * 1e9), 0, 1 << 20, 1)) * count)


def _points(spoiler: Spoiler, path: Path) -> None:
    chance, size = spoiler.chance, curves.SIZE
    data = bytearray(path.read_bytes())
    count = (len(data) - len(curves.MAGIC)) // size
    for _ in range(chance.choice([1, 3, 50]) if count > 0 else 0):
        at = len(curves.MAGIC) + chance.randrange(count) * size
        fields = [*curves.RECORD.unpack_from(data, at)]
        field = chance.randrange(len(fields))
        fields[field] = chance.choice(_ODD_FIELDS[field])
        curves.RECORD.pack_into(data, at, *fields)
    path.write_bytes(data)


_ODD_TIMES = (0.0, -1.0, 1e11, 1e308, float("nan"), float("inf"), float("-inf"))
_ODD_FIELDS: tuple[tuple[Any, ...], ...] = (
    (1, 200, 65535), (1, 65535), (0, 1 << 31, (1 << 32) - 1), (1, 40, 41, 255), (1, 2, 255), (1, 65535), (1,),
    (-(1 << 63), (1 << 63) - 1, 1 << 62, -(1 << 62), -1, 10**15), *[_ODD_TIMES] * 4,
)  # fmt: skip


def _names(spoiler: Spoiler, path: Path) -> None:
    lines = path.read_bytes().splitlines()
    if not lines:
        return
    odd = (*map(_dumped, WRONG[:20]), b'"a\\u001b]0;PWNED\\u0007"', b'"\\ud800"', b'"' + b"x" * 16384 + b'"')
    at = spoiler.chance.randrange(len(lines))
    lines[at] = spoiler.chance.choice([*odd, b"[" * 100_000, b'"loss"', b'"checkpoint"', b'"s/step"'])
    path.write_bytes(b"\n".join(lines) + b"\n")


def _linked_folder(spoiler: Spoiler, path: Path) -> None:
    shutil.rmtree(path)
    path.symlink_to(spoiler.counterpart(path))


def _no_folder(spoiler: Spoiler, path: Path) -> None:
    shutil.rmtree(path)
    way = spoiler.chance.randrange(4)
    if way == 1:
        path.touch()
    elif way == 2:
        os.mkfifo(path)
    elif way == 3:
        path.symlink_to(path)


def _odd_names(spoiler: Spoiler, path: Path) -> None:
    for name in ("99999", "1", "00", "-1", "x\x1b[2J", "é" * 60, ".hidden", "000000000001.jsonl"):
        (path / name).mkdir() if spoiler.chance.random() < 0.5 else (path / name).write_text("{}\n")


Way = Callable[[Spoiler, Path], None]
_FILE_WAYS: tuple[Way, ...] = (
    _truncated, _overwritten, _nulls, _random, _huge, _removed, _empty, _link, _plain_link, _loop, _zeros,
    _fifo, _folder, _socket, _locked,
)  # fmt: skip
_TEXT_WAYS: tuple[Way, ...] = (*[_leaf] * 18, *[_lines] * 4, _newer)
_ORDER_WAYS: tuple[Way, ...] = (*[_records] * 8, _more_records, _more_records)
_POINT_WAYS: tuple[Way, ...] = (_points,) * 8
_NAME_WAYS: tuple[Way, ...] = (_names,) * 8
_FOLDER_WAYS: tuple[Way, ...] = (_linked_folder, _linked_folder, _no_folder, _odd_names)


def make_outside(outside: Path, run: Path) -> None:
    """A place beside the runs that looks like one, with a secret in every file, in a form that is read."""
    shutil.copytree(run, outside, dirs_exist_ok=True)
    for path in outside.rglob("*"):
        if path.is_file() and path.name != paths.CHUNKS:
            data = path.read_bytes()
            if ".json" in path.name:
                for old in (b"hello", b"gpu-01", b"ada", b"both ranks", b"/w/t.py", b"llama-ft", b"local"):
                    data = data.replace(old, SECRET.encode())
            else:
                data = SECRET.encode() * max(len(data) // len(SECRET), 1) + b"\n"
            path.write_bytes(data)
    (outside / "secret").write_text(f"{SECRET}\n" * 100)
