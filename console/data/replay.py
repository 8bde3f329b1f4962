"""The demo's invented run (`Script`), and the replay of a recorded run as if it were live (`Replay`).

The curves of the invented run are functions of the second, with a little noise from a seeded generator: it
reads no clock and no sensor.
"""

from __future__ import annotations

import math
import os
import random
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from launcher.diagnosis.causes import Evidence, find_cause
from launcher.runs import files, paths
from launcher.runs.catalog import create_folder
from launcher.runs.logs import writer
from launcher.runs.reader import FactTail, memory_course, read_spec
from launcher.runs.writer import RunWriter
from launcher.spec.places import Assignment, Device
from launcher.state import events as ev
from launcher.state.fold import fold_all
from launcher.state.outcome_rules import verdict
from launcher.state.ranks import RankPhase

GIB = 1 << 30
PLACED, ENTERED, TRAINS = 2.6, 5.2, 6.0
STEP_S, _SAVES = 0.25, 60
BROKEN = 5

Output = tuple[writer.Chunk, bytes]
Item = ev.Event | Output

ERROR = """Traceback (most recent call last):
  File "/home/ada/llm/train.py", line 88, in main
    loss = step(model, next(batches), scaler)
  File "/home/ada/llm/train.py", line 61, in step
    logits = model(batch.tokens)
  File "/home/ada/llm/model.py", line 212, in forward
    scores = torch.matmul(q, k.transpose(-2, -1)) * self.scale
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 1 has a total capacity \
of 79.18 GiB of which 1.04 GiB is free. Including non-PyTorch memory, this process has 78.13 GiB memory \
in use. Of the allocated memory 76.90 GiB is allocated by PyTorch, and 411.08 MiB is reserved by PyTorch \
but unallocated.
"""
FRAMES = (
    ("/home/ada/llm/train.py", 88, "main"),
    ("/home/ada/llm/train.py", 61, "step"),
    ("/home/ada/llm/model.py", 212, "forward"),
)
SOURCE = (
    """\
        q, k, v = self.project(hidden)
        k, v = repeat_heads(k, self.groups), repeat_heads(v, self.groups)
        scores = torch.matmul(q, k.transpose(-2, -1)) * self.scale
        scores = scores.masked_fill(self.future, float("-inf"))
        return self.out(torch.matmul(scores.softmax(-1), v))""",
    """\
def step(model, batch, scaler):
    with torch.autocast("cuda", torch.bfloat16):
        logits = model(batch.tokens)
        loss = cross_entropy(logits, batch.targets)
    scaler.scale(loss).backward()""",
    """\
    batches = iter(loader)
    for number in range(args.steps):
        loss = step(model, next(batches), scaler)
        if number % 8 == 0:
            launcher.report(step=number, loss=loss)""",
)
"""The lines around those of `FRAMES`, the innermost first."""
EXCERPTS = tuple(
    ev.SourceExcerpt(file=file, line=line, function=function, first=line - 2, lines=tuple(text.split("\n")))
    for (file, line, function), text in zip(reversed(FRAMES), SOURCE, strict=True)
)
HEADS = "(5, 64, 2048, 128) bfloat16 on cuda:1"  # 64 heads' scores of 2048 by 2048 take 2.50 GiB
VARIABLES = (
    *(ev.Variable(name=name, type="torch.Tensor", about=HEADS) for name in ("q", "k")),
    ev.Variable(name="self", type="model.Attention"),
    ev.Variable(name="hidden", type="torch.Tensor", about="(5, 2048, 8192) bfloat16 on cuda:1"),
    ev.Variable(name="v", type="torch.Tensor", about=HEADS),
)
H100 = 85_520_809_984  # bytes of memory, as its driver tells


@dataclass(slots=True)
class Script:
    """The invented run: its facts and its output, in order of time."""

    start: float
    ranks: int = 8
    gpus: bool = True
    seconds: int = 90
    fail: bool = False
    chance: random.Random = field(default_factory=lambda: random.Random(7))

    @property
    def end(self) -> float:
        """The end of training, in seconds after the start."""
        return self.seconds * (0.6 if self.fail else 1.0) - 2.5

    @property
    def steps(self) -> int:
        """How many steps the training plans."""
        return int((self.seconds - 2.5 - TRAINS) / STEP_S)

    def items(self, until: float = math.inf) -> list[Item]:
        """All facts and output by time, up to `until` seconds after the start."""
        told = [*self._launch(), *self._training(), *self._ending()]
        everything = sorted([*told, *(self._cause(told) if self.fail else ())], key=time_of)
        return [each for each in everything if time_of(each) <= self._at(until)]

    def host(self, rank: int) -> int:
        """A rank's host, 0 or 1: the first half of the ranks is on host 0."""
        return rank * 2 // self.ranks if self.ranks > 1 else 0

    def _at(self, seconds: float) -> float:
        return self.start + seconds

    def _launch(self) -> Iterator[Item]:
        yield ev.RunSubmitted(
            time=self._at(0), name="llama-ft", target="train.py:main", mode="cluster",
            num_processes=self.ranks, user="ada", host="driver", pid=4242,
        )  # fmt: skip
        yield ev.SparkReady(
            time=self._at(0.25), application="app-20260101100000-0042", master="spark://head:7077",
            version="4.0.1", name="rankdeck", ui="http://head:4040",
        )  # fmt: skip
        for i, have in enumerate((0, self.ranks // 2, self.ranks * 3 // 4)):
            yield ev.SlotsAwaited(time=self._at(0.3 + 0.7 * i), have=have, need=self.ranks, limit_s=600.0)
        yield ev.StageSubmitted(time=self._at(2.2), tasks=self.ranks)
        for agent in sorted({self.host(r) for r in range(self.ranks)}):
            yield ev.AgentJoined(
                time=self._at(2.3 + 0.1 * agent), agent=agent, host=_host(agent), pid=900 + agent,
                python="3.12.4", clock_offset=0.002, devices=tuple(self._device(r) for r in self._on(agent)),
            )  # fmt: skip
        yield ev.DeliveryChosen(time=self._at(2.5), way="live")
        yield ev.GangPlaced(time=self._at(PLACED), ranks=tuple(self._place(r) for r in range(self.ranks)))
        for rank in range(self.ranks):
            yield ev.RankStarted(time=self._at(PLACED + 0.2 + rank * 0.02), rank=rank, pid=21000 + 13 * rank)
            yield ev.RankEntered(time=self._at(ENTERED + (rank * 37 % 11) * 0.05), rank=rank)
            yield self._output(
                ENTERED + 0.6 + rank * 0.01, rank, f"rank {rank}: process group ready, nccl 2.27\n"
            )

    def _training(self) -> Iterator[Item]:
        step = 0
        while (now := TRAINS + step * STEP_S) < self.end:
            step += 1
            yield from self._step(now, step)
        second = int(PLACED) + 1
        while second < self.end:
            yield from (
                self._sample(second + 0.1, agent) for agent in {self.host(r) for r in range(self.ranks)}
            )
            second += 1

    def _step(self, now: float, step: int) -> Iterator[Item]:
        loss = self._loss(step)
        if step % 4 == 0:
            for rank in range(self.ranks):
                own = loss + 0.04 * math.sin(2.4 * rank + step / 9) * (rank > 0)
                figures = {"loss": round(own, 4), "tokens_per_s": 61_000.0 + self.chance.randint(-900, 900)}
                figures["total_steps"] = float(self.steps)
                if rank == 0 and step >= _SAVES:
                    figures["checkpoint"] = float(step - step % _SAVES)
                late = 0.05 * (rank % 3)
                yield ev.RankReported(time=self._at(now + late), rank=rank, step=step, metrics=figures)
        if step % 2 == 0:
            yield self._bar(now, step, loss)
        if step % 8 == 0:
            line = (
                f"step {step:>4}  loss {loss:.4f}  lr {3e-4 * (1 - step / (self.steps + 1)):.2e}  61k tok/s\n"
            )
            yield self._output(now + 0.01, 0, line)
        if step % 40 == 7:
            rank = self.chance.randrange(self.ranks)
            yield self._output(now + 0.02, rank, "WARNING loader waited 61 ms for a batch\n", paths.STDERR)
        if step % _SAVES == 0:
            yield self._output(now + 0.03, 0, f"\x1b[32msaved\x1b[0m checkpoint step-{step}.pt\n")

    def _ending(self) -> Iterator[Item]:
        yield from self._failure() if self.fail else self._success()
        for agent in {self.host(r) for r in range(self.ranks)}:
            yield ev.CleanupProven(time=self._at(self.end + 2.1), agent=agent, host=_host(agent))
            yield ev.AgentDeparted(
                time=self._at(self.end + 2.2), agent=agent, host=_host(agent), expected=True
            )
        if self.fail:
            why = f"rank {BROKEN} on {_host(self.host(BROKEN))} raised OutOfMemoryError"
            yield ev.RunEnded(
                time=self._at(self.end + 2.4), state="failed", exit_code=1, why=why, rank=BROKEN
            )
        else:
            why = f"all {self.ranks} ranks succeeded"
            yield ev.RunEnded(time=self._at(self.end + 2.4), state="succeeded", exit_code=0, why=why)

    def _success(self) -> Iterator[Item]:
        yield self._output(self.end, 0, "\n", paths.STDERR)
        for rank in range(self.ranks):
            value = {"loss": round(self._loss(self.steps), 4), "steps": self.steps, "rank": rank}
            end = self.end + 0.5 + 0.03 * rank
            yield ev.RankReturned(time=self._at(end), rank=rank, type="dict", size=96, value=value, json=True)
            yield ev.RankExited(time=self._at(end + 0.6), rank=rank, exit_code=0, duration_s=end - ENTERED)

    def _failure(self) -> Iterator[Item]:
        yield self._output(self.end, BROKEN, ERROR, paths.STDERR)
        yield ev.RankRaised(
            time=self._at(self.end + 0.1), rank=BROKEN, kind="torch.OutOfMemoryError",
            message=ERROR.splitlines()[-1].partition(": ")[2], traceback=ERROR, frames=FRAMES,
            excerpts=EXCERPTS, variables=VARIABLES,
        )  # fmt: skip
        yield ev.RankExited(time=self._at(self.end + 0.9), rank=BROKEN, exit_code=1, duration_s=self.end)
        yield ev.StopRequested(
            time=self._at(self.end + 1.0), by=f"rank {BROKEN}", reason=f"rank {BROKEN} failed", grace_s=10.0
        )
        for rank in set(range(self.ranks)) - {BROKEN}:
            yield ev.RankExited(time=self._at(self.end + 1.4), rank=rank, exit_code=143, signal="SIGTERM")

    def _cause(self, items: Iterable[Item]) -> Iterator[Item]:
        """What the rules find in this run."""
        facts = [each for each in items if isinstance(each, ev.Event)]
        state, now = fold_all(facts), self._at(self.end + 2.3)
        evidence = Evidence(memory_of=lambda rank: memory_course(facts, rank.rank, 0))
        found = find_cause(state, evidence, verdict(state, now=now))
        if found is not None:
            yield found

    def _sample(self, second: float, agent: int) -> ev.Sampled:
        mine = self._on(agent)
        warm = min(max((second - TRAINS) / 3, 0.0), 1.0)
        devices = tuple(self._device_sample(r, second, warm) for r in mine) if self.gpus else ()
        ranks = tuple(
            ev.RankSample(
                rank=r, cpu=round(104 + 40 * warm + self.chance.uniform(-9, 9), 1), processes=5,
                rss=int((3.1 + 0.9 * warm) * GIB),
                device_memory=int((70 * warm + self._grown(r, second)) * GIB) if self.gpus else None,
            )
            for r in mine
        )  # fmt: skip
        system = ev.HostSample(
            cpu=12.0 + 9 * warm, memory_used=61 * GIB, memory_total=512 * GIB, load1=4.0 + 3 * warm
        )
        return ev.Sampled(
            time=self._at(second), agent=agent, host=_host(agent), system=system, devices=devices, ranks=ranks
        )

    def _device_sample(self, rank: int, second: float, warm: float) -> ev.DeviceSample:
        dip = 24 * max(0.0, math.sin(second / 7 + rank)) ** 8
        util = round(max(warm * (96 - dip + self.chance.uniform(-3, 3)), 0.0), 0)
        return ev.DeviceSample(
            uuid=_uuid(rank), index=self._local(rank), util=util, memory_total=H100,
            memory_used=int((0.4 + 70 * warm + self._grown(rank, second)) * GIB),
            power_w=round(120 + 5.6 * util, 1), power_limit_w=700.0,
            temperature_c=round(34 + 31 * warm + rank % 3, 0),
            sm_clock_mhz=1980, memory_clock_mhz=2619, throttle=(), nvlink_active=18,
            nvlink_rx_kbs=round(1e6 * util), nvlink_tx_kbs=round(0.97e6 * util),
            pcie_rx_kbs=round(450 + 2400 * util), pcie_tx_kbs=round(560 + 310 * util),
        )  # fmt: skip

    def _grown(self, rank: int, second: float) -> float:
        """GiB that the broken rank takes more and more of in its last seconds."""
        return 8.1 * max(0.0, (second - self.end + 12) / 12) if self.fail and rank == BROKEN else 0.0

    def _loss(self, step: int) -> float:
        return 1.9 + 2.6 * math.exp(-step / (self.steps / 3 + 1)) + 0.02 * math.sin(step * 1.7)

    def _bar(self, now: float, step: int, loss: float) -> Output:
        done = step / self.steps
        bar = "█" * int(done * 20) + " " * (20 - int(done * 20))
        text = f"\rtrain: {done:>4.0%}|{bar}| {step}/{self.steps} [{now:.0f}s, 4.00it/s, loss={loss:.3f}]"
        return self._output(now, 0, text, paths.STDERR)

    def _output(self, now: float, rank: int, text: str, stream: int = paths.STDOUT) -> Output:
        data = text.encode()
        return writer.Chunk(int(self._at(now) * 1e9), rank, len(data), stream), data

    def _on(self, agent: int) -> list[int]:
        return [r for r in range(self.ranks) if self.host(r) == agent]

    def _local(self, rank: int) -> int:
        return self._on(self.host(rank)).index(rank)

    def _device(self, rank: int) -> Device:
        return Device(index=self._local(rank), uuid=_uuid(rank), name="NVIDIA H100 80GB HBM3", memory=H100)

    def _place(self, rank: int) -> Assignment:
        mates = self._on(self.host(rank))
        return Assignment(
            rank=rank, world_size=self.ranks, local_rank=self._local(rank), local_world_size=len(mates),
            node_rank=self.host(rank), node_count=min(self.ranks, 2), agent=self.host(rank),
            host=_host(self.host(rank)), devices=(self._device(rank),) if self.gpus else (), threads=12,
        )  # fmt: skip


def _host(agent: int) -> str:
    return f"gpu-{agent + 1:02d}"


def _uuid(rank: int) -> str:
    return f"GPU-{rank:08x}-0000-4000-8000-000000000000"


_NEVER = 1 << 63
_MAX_RECORDS = 256 << 20
_APART_NS = 1000  # the resolution of facts' times, which are seconds as floats


class Replay:
    """One replay, in its own thread; `run` is the folder that it writes."""

    def __init__(self, recorded: Path, root: Path, *, speed: float = 1.0, ahead_s: float = 0.0) -> None:
        self._start = time.time() - ahead_s / speed
        self._speed = speed
        self._items = list(recorded_items(recorded))
        self._first = time_of(self._items[0])
        self.run = create_folder(root, time.time())
        self._writer = RunWriter(self.run, read_spec(recorded))
        self._ending: tuple[str, bool] | None = None
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._play, name="rankdeck-replay", daemon=True)

    def start(self) -> None:
        """Start to write."""
        self._thread.start()

    def stop(self, by: str = "person", *, force: bool = False) -> None:
        """End the replayed run as a real stop would."""
        self._ending = (by, force)
        self._wake.set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end; return whether it was reached."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _play(self) -> None:
        for item in self._items:
            due = self._shift(time_of(item))
            self._wake.wait(max(due - time.time(), 0.0))
            if self._ending is not None:
                self._end(*self._ending)
                break
            self._write(item, due)
            self._writer.settle()
        self._writer.close()

    def _shift(self, then: float) -> float:
        return self._start + (then - self._first) / self._speed

    def _write(self, item: Item, now: float) -> None:
        if isinstance(item, ev.Event):
            self._writer.append(replace(item, time=now))
            if isinstance(item, ev.RankReturned):
                self._writer.open_result(item.rank).commit()
        else:
            chunk, data = item
            self._writer.output([(replace(chunk, time_ns=int(now * 1e9)), memoryview(data))])

    def _end(self, by: str, force: bool) -> None:
        """Write the facts of a stop, unless the run has ended meanwhile."""
        if self._writer.state.phase.final:
            return
        now, name = time.time(), "SIGKILL" if force else "SIGTERM"
        attempt = self._writer.state.attempt
        self._writer.append(
            ev.StopRequested(time=now, attempt=attempt, by=by, reason="stopped on request", exit_code=143)
        )
        for rank in self._writer.state.ranks:
            if rank.phase not in (RankPhase.SUCCEEDED, RankPhase.FAILED):
                code = 137 if force else 143
                self._writer.append(
                    ev.RankExited(
                        time=now + 0.2, attempt=attempt, rank=rank.rank, exit_code=code, signal=name
                    )
                )
        self._writer.append(
            ev.RunEnded(time=now + 0.3, state="stopped", exit_code=143, why="stopped on request")
        )


def replay(recorded: Path, root: Path, *, speed: float = 1.0, ahead_s: float = 0.0) -> Replay:
    """Start to replay `recorded` in a new folder under `root`; its first `ahead_s` seconds come at once."""
    started = Replay(recorded, root, speed=speed, ahead_s=ahead_s)
    started.start()
    return started


def recorded_items(recorded: Path) -> Iterator[Item]:
    """Every fact and every piece of output of a run, by time; output stays within its attempt."""
    facts = FactTail(recorded, samples=True).poll()
    begins = {f.attempt: int(f.time * 1e9) for f in facts if isinstance(f, ev.GangRestarted)}
    items: list[Item] = [*facts, *_pieces(recorded, begins)]
    return iter(sorted(items, key=time_of))


def time_of(item: Item) -> float:
    """The time of a fact or a piece of output, in seconds since the epoch."""
    return item.time if isinstance(item, ev.Event) else item[0].time_ns / 1e9


def _pieces(recorded: Path, begins: Mapping[int, int]) -> Iterator[Output]:
    """The output of every attempt; hosts' clocks differ, so each time is clamped to its attempt's bounds."""
    for attempt in paths.attempts(recorded):
        first, end = begins.get(attempt, 0), begins.get(attempt + 1, _NEVER) - _APART_NS
        for chunk, data in _pieces_of(recorded, attempt):
            yield replace(chunk, time_ns=min(max(chunk.time_ns, first), end)), data


def _pieces_of(recorded: Path, attempt: int) -> Iterator[Output]:
    try:
        order = paths.log_folder(recorded, attempt) / paths.CHUNKS
        records = files.read_whole(recorded, order, _MAX_RECORDS)[len(writer.MAGIC) :]
    except FileNotFoundError:
        return
    at: dict[Path, int] = {}
    for chunk in writer.unpack_chunk(records):
        path = paths.log_file(recorded, attempt, chunk.rank, chunk.stream)
        offset = at.get(path, 0)
        yield chunk, _slice(recorded, path, offset, chunk.length)
        at[path] = offset + chunk.length


def _slice(recorded: Path, path: Path, offset: int, length: int) -> bytes:
    descriptor = files.open_descriptor(recorded, path)
    try:
        return os.pread(descriptor, length, offset)
    finally:
        os.close(descriptor)
