"""Bringing home the files that ranks write: as they come, and the rest when the ranks have ended."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..channel.frames import Frame, Kind, WireError
from ..channel.handshake import Hello
from ..errors import counted
from ..runs.artifacts import ArtifactStore, IncomingFile, Refused
from ..runs.writer import RunWriter
from ..serialization import LATEST
from ..state import events as ev
from ..state.artifacts import Artifact
from ..state.outcome_rules import listed
from ..state.run_state import RunState

NEWS_S = 1.0
AGAIN_S = 60.0
SILENCE_S = 60.0
_NAMED = 5
_SHOWN = 3


class AgentFiles:
    """The files that one agent sends, one after another.

    Args:
        writer: the run's folder.
        hello: the agent's.
        refuse: tells the agent that home does not take the file of this path.
    """

    def __init__(self, writer: RunWriter, hello: Hello, refuse: Callable[[str], None]) -> None:
        self._writer, self._hello, self._refuse = writer, hello, refuse
        self._entry_path = ""
        self._link: Artifact | None = None
        self._incoming: IncomingFile | None = None

    def on_frame(self, frame: Frame) -> None:
        """Take a frame about files.

        Raises:
            WireError: it is not such a frame.
        """
        try:
            self._take(frame)
        except Refused:
            self._refuse(self._entry_path)
            self._incoming = None

    def close(self) -> None:
        """Nothing more will come."""
        if self._incoming is not None:
            self._store.discard(self._incoming)
            self._incoming = None

    @property
    def _store(self) -> ArtifactStore:
        return self._writer.artifacts

    def _take(self, frame: Frame) -> None:
        match frame.kind:
            case Kind.FILE_BEGIN:
                self._begin(frame.document())
            case Kind.FILE_DATA if self._incoming is not None:
                self._store.write(self._incoming, memoryview(frame.payload))
            case Kind.FILE_END:
                self._end(str(frame.document().get("digest")))
            case Kind.FILE_ABORT:
                self.close()
            case Kind.FILES_GONE:
                names = frame.document().get("paths")
                self._store.gone(self._host, map(str, names if isinstance(names, list) else ()), time.time())
            case _:
                pass  # pieces of a file that was refused

    def _begin(self, document: Mapping[str, Any]) -> None:
        self.close()
        entry = self._entry(document)
        self._entry_path, self._link = entry.path, entry if entry.link else None
        if not entry.link:
            self._incoming = self._store.begin(entry)

    def _end(self, digest: str) -> None:
        incoming, self._incoming = self._incoming, None
        if self._link is not None:
            self._store.link(self._link)
            self._link = None
        elif incoming is not None:
            self._store.finish(incoming, digest)

    @property
    def _host(self) -> str:
        return host_of(self._writer.state, self._hello.agent) or self._hello.host

    def _entry(self, document: Mapping[str, Any]) -> Artifact:
        """What is announced.

        Raises:
            WireError: it is no file's announcement.
        """
        path, size, rank = document.get("path"), document.get("size"), document.get("rank")
        written = document.get("time")
        valid = isinstance(path, str) and type(size) is int and size >= 0
        valid = valid and (rank is None or (type(rank) is int and 0 <= rank < 1 << 20))
        if not valid or not isinstance(written, (int, float)) or not math.isfinite(written):
            raise WireError(f"an agent announced an invalid file: {document!r:.200}")
        state = self._writer.state
        host, own = self._host, ranks_on(state, self._host)
        return Artifact(
            path=str(path),
            host=host,
            size=int(size or 0),
            executable=document.get("executable") is True,
            link=str(document.get("link") or ""),
            rank=own[0] if len(own) == 1 else rank,
            first_rank=own[0] if own else 0,
            attempt=state.attempt,
            time=min(max(float(written), 0.0), LATEST),
        )


def host_of(state: RunState, agent: int) -> str:
    """The name of an agent's host, as ranks have it; empty if none of them is there."""
    return next((r.host for r in state.ranks if r.agent == agent), "")


def ranks_on(state: RunState, host: str) -> list[int]:
    """The ranks of a host."""
    return [r.rank for r in state.ranks if r.host == host]


class Collection:
    """What comes home of a run: tells of it, and asks for the rest when the ranks have ended.

    Args:
        writer: the run's folder.
        send: sends a document to an agent.
        clock: the time of day.
        monotonic: a clock in seconds.

    Attributes:
        collectors: the agents that watch a working folder and are still connected.
    """

    def __init__(
        self,
        writer: RunWriter,
        send: Callable[[int, Kind, Mapping[str, Any]], None],
        clock: Callable[[], float],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._writer, self._send, self._clock, self._monotonic = writer, send, clock, monotonic
        self._last_news = float("-inf")
        self._active_at = 0.0
        self.collectors: set[int] = set()
        self.reset()

    def reset(self) -> None:
        """Another attempt begins."""
        self._asked: set[int] = set()
        self._swept: set[int] = set()
        self._told = False

    @property
    def sweeping(self) -> bool:
        """Whether files are awaited after the ranks' end."""
        return bool((self._asked & self.collectors) - self._swept)

    def sweep(self) -> bool:
        """Ask for what is not here yet, once all ranks have ended; whether all has come that will come."""
        state, now = self._writer.state, self._monotonic()
        for agent in self.collectors - self._asked:
            self._asked.add(agent)
            self._active_at = now
            self._send(agent, Kind.SWEEP, {"deaths": deaths_on(state, agent)})
        if self.sweeping and now < self._active_at + SILENCE_S:
            return False
        if self.sweeping:
            self.give_up(f"nothing came for {SILENCE_S:g} s")
        self._conclude()
        return True

    def give_up(self, why: str) -> None:
        """Wait no longer for files."""
        waiting = (self._asked & self.collectors) - self._swept
        hosts = [host_of(self._writer.state, agent) for agent in sorted(waiting)]
        if hosts:
            self._note(f"files of {listed(hosts, most=_SHOWN)} did not come home: {why}")
        self._swept |= waiting

    def on_sweeping(self, agent: int, document: Mapping[str, Any]) -> None:
        """An agent has counted what it will send."""
        files, size = (document.get(name) for name in ("files", "bytes"))
        if type(files) is int and type(size) is int and files > 0 and size >= 0:
            now, state = self._clock(), self._writer.state
            host = host_of(state, agent)
            self._writer.append(
                ev.ArtifactsAwaited(time=now, attempt=state.attempt, host=host, files=files, size=size)
            )

    def on_swept(self, agent: int, document: Mapping[str, Any]) -> None:
        """An agent has sent all that it could."""
        self._swept.add(agent)
        left, count = document.get("left"), document.get("left_count")
        if isinstance(left, dict) and left and type(count) is int:
            host = host_of(self._writer.state, agent)
            self._note(
                unfinished_note({str(k): str(v) for k, v in left.items()}, count, host, self._kept(host))
            )

    def on_pieces(self) -> None:
        """Something has come."""
        self._active_at = self._monotonic()

    def on_departed(self, agent: int, *, finished: bool) -> None:
        """An agent has left; what it had not sent is lost."""
        if agent in self.collectors:
            self.collectors.discard(agent)
            if not finished or agent in self._asked - self._swept:
                host = host_of(self._writer.state, agent)
                self._note(f"what ranks on {host} wrote last may be lost: its agent is gone")

    def tell(self, *, now: float | None = None) -> None:
        """Record what has come, at most once in `NEWS_S`; versions of files that are known, in `AGAIN_S`.

        Args:
            now: monotonic time; None to record it in any case.
        """
        if now is not None and now < self._news_due:
            return
        by_host: dict[str, list[tuple[Artifact, bool]]] = {}
        for each, again in self._writer.artifacts.take_news():
            by_host.setdefault(each.host, []).append((each, again))
        for host, came in by_host.items():
            self._writer.append(self._news(host, came))
            self._last_news = self._monotonic()

    def timeout(self) -> float | None:
        """Seconds until there is something to do; None: never."""
        now = self._monotonic()
        times = [self._active_at + SILENCE_S] if self.sweeping else []
        times += [self._news_due] if self._writer.artifacts.has_news else []
        return max(0.0, min(times) - now) if times else None

    @property
    def _news_due(self) -> float:
        return self._last_news + (NEWS_S if self._writer.artifacts.has_new else AGAIN_S)

    def _news(self, host: str, came: list[tuple[Artifact, bool]]) -> ev.ArtifactsKept:
        store = self._writer.artifacts
        largest = sorted(came, key=lambda one: (one[1], -one[0].size))[:_NAMED]
        return ev.ArtifactsKept(
            time=self._clock(),
            attempt=self._writer.state.attempt,
            host=host,
            files=len(came),
            size=sum(each.size for each, _ in came),
            named=tuple(ev.NamedFile(each.path, each.size, each.rank, again) for each, again in largest),
            total_files=store.count,
            total_size=store.size,
        )

    def _conclude(self) -> None:
        """After the sweep: say what has come, and what home did not take."""
        self.tell()
        if self._told:
            return
        self._told = True
        for text in refusal_notes(self._writer.artifacts.refused):
            self._note(text)

    def _kept(self, host: str) -> set[str]:
        return {each.path for each in self._writer.artifacts.kept if each.host == host}

    def _note(self, text: str) -> None:
        attempt = self._writer.state.attempt
        self._writer.append(ev.NoteMade(time=self._clock(), attempt=attempt, text=text, level="warning"))


def deaths_on(state: RunState, agent: int) -> list[float]:
    """When ranks of an agent's host, or what they left running, were killed; on its clock. Pure."""
    host = state.hosts.get(agent)
    offset = host.clock_offset if host else 0.0
    name = host_of(state, agent)
    ranks = [r for r in state.ranks if r.host == name]
    times = [r.ended for r in ranks if r.signal and r.ended is not None]
    proofs = [state.hosts[a].cleanup for a in {r.agent for r in ranks} if a in state.hosts]
    times += [proof.time for proof in proofs if proof is not None and proof.killed]
    return sorted(at + offset for at in times)


def unfinished_note(left: Mapping[str, str], count: int, host: str, kept: set[str]) -> str:
    """The sentence on files of a host that were not whole. Pure."""
    reasons = list(dict.fromkeys(left.values()))
    shown = [
        f"{path} (its last whole version is kept)" if path in kept else path for path in list(left)[:_SHOWN]
    ]
    names = (
        listed(shown, most=_SHOWN) if count <= len(left) else f"{', '.join(shown)} and {count - _SHOWN} more"
    )
    return f"{names} on {host} did not come home: {' or '.join(reasons)}"


def refusal_notes(refused: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """A sentence for each reason for which files were not taken. Pure."""
    for why in dict.fromkeys(refused.values()):
        names = [path for (_, path), reason in refused.items() if reason == why]
        yield f"{counted(len(names), 'file')} did not come home, {why}: {listed(names, most=_SHOWN)}"
