"""How a stage's output comes home: live, through a folder that is shared, or with the stage at its end.

Nobody can say beforehand which it will be. It is live once all agents have come; it goes by the spool once
the engine beside the agents writes there; and when tasks have run for a while and there is neither, it comes
home with them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from launcher import events as ev
from launcher.backends import Mirror
from launcher.backends.luggage import Luggage
from launcher.backends.mirror import FieldReader
from launcher.backends.muster import Muster
from launcher.backends.spool import HomeEnd
from launcher.channel.link import Link
from launcher.errors import RecordError
from launcher.request import Request
from launcher.worker.boot import Boot

LOOK_S = 0.2
# What agents take, beside dialling, from the start of their task to the first fact of an engine of their own.
MARGIN_S = 8.0
LOST_OUTPUT = "what the ranks wrote was kept on an executor, where Spark discards it with the job"


OUT_OF_REACH = "a stop would end this run without what it has written"
# Measured: 417 s with the default of 5 minutes.
WITHOUT_US = (
    "; if this process dies, Spark lets the ranks go on for some minutes"
    " (spark.connect.execute.manager.detachedTimeout)"
)
CUT = (
    "part of the ranks' output is missing: there was more than Spark can bring home with a job; more memory "
    "for executors and driver, a larger spark.driver.maxResultSize, or --spool lets more through"
)


class Delivery:
    """One stage's. `admit`, `carried` and `running` are for whoever knows; `close` comes when it is over.

    Args:
        request: the run's.
        folder: its run folder.
        attempt: which attempt the stage begins.
        tasks: how many agents there are.
        boot: what they are born with: where they look for us, and for how long.
        tell: takes news.
        hand: takes a piece of a record, and returns when it is written; false if nobody writes any more.
        cancel: cancels the stage.
        look: how many tasks run; None where `running` is told.
    """

    def __init__(
        self,
        request: Request,
        folder: Path,
        *,
        attempt: int,
        tasks: int,
        boot: Boot,
        tell: Callable[..., None],
        hand: Callable[[Mirror], bool],
        cancel: Callable[[], None],
        look: Callable[[], int] | None = None,
    ) -> None:
        self.way = ""
        self._folder, self._attempt, self._tasks = folder, attempt, tasks
        self._addresses = " or ".join(f"{e.host}:{e.port}" for e in boot.endpoints)
        self._dial_s = boot.dial_s
        self._tell, self._hand, self._cancel, self._look = tell, hand, cancel, look
        self._patience = 2 * request.spec.spark.lost_after_s
        self._muster = Muster(tasks, self._all_here)
        self._luggage = Luggage(folder)
        self._began = time.time()
        spool = request.spec.spark.spool
        self._spool = HomeEnd(spool, folder.name, attempt) if spool else None
        self._reader = self._reader_of(self._spool.run) if self._spool else None
        self._running_since: float | None = None
        self._asked: tuple[ev.StopRequested, float] | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="rankdeck-delivery", daemon=True)

    @property
    def spool(self) -> tuple[str, str]:
        """The folder that may be shared, and its marker; empty texts if there is none."""
        return (str(self._spool.folder), self._spool.marker) if self._spool else ("", "")

    def start(self) -> None:
        """The stage is handed to Spark."""
        self._began = time.time()
        self._thread.start()

    def admit(self, link: Link) -> None:
        """An agent has come."""
        self._muster.admit(link)

    def carried(self, agent: int, data: bytes) -> None:
        """A piece has come home with a task."""
        del agent
        self._luggage.add(data)

    def running(self, tasks: int) -> None:
        """So many tasks run now, as far as Spark says."""
        if tasks >= self._tasks and self._running_since is None:
            self._running_since = time.monotonic()

    def relay(self, request: ev.StopRequested) -> None:
        """Pass a person's stop on; where there is no way to do that, end the stage."""
        if self.way == "spool" and self._spool is not None:
            try:
                self._spool.ask(request)
            except OSError as error:
                self._give_up(request, f"the spool folder cannot be written: {error.strerror}")
            else:
                self._asked = request, time.monotonic() + request.grace_s + self._patience
        else:
            self._give_up(request, LOST_OUTPUT)

    def leave(self) -> bool:
        """Have agents that wait for others end with them; whether there are any."""
        return self._muster.leave()

    def close(self) -> None:
        """The stage is over: tell what there still is, and clear up.

        Raises:
            RecordError: there is no room for it.
        """
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._muster.close()
        try:
            if self.way != "live":
                self._finish()
        except OSError as error:
            raise RecordError(f"what came from executors cannot be written: {error.strerror}") from error
        finally:
            self._luggage.discard()
            if self._spool:
                self._spool.remove()

    # --- the thread ----------------------------------------------------------------------------------

    def _watch(self) -> None:
        next_look = time.monotonic() + self._dial_s / 2
        while not self._closing.wait(LOOK_S) and self.way != "live":
            self._muster.tend()
            if self._look and not self.way and time.monotonic() >= next_look:
                next_look = time.monotonic() + self._dial_s / 2
                self.running(self._look())
            if self._spool and self._reader:
                self._spool.beat()
                self._mirror(self._reader)
            self._guess()
            if self._asked and time.monotonic() >= self._asked[1]:
                request, self._asked = self._asked[0], None
                self._give_up(request, "the engine beside the agents did not stop the run in time")
        if self._spool and self.way == "live":
            self._spool.remove()

    def _all_here(self, links: Sequence[Link]) -> None:
        if self.way == "carried":
            self._tell(Mirror(over=True))  # they were late, and nothing has happened without us
        reason = "all agents have reached this machine"
        self._choose("live", reason)
        self._tell(*links)

    def _mirror(self, reader: FieldReader, *, final: bool = False) -> None:
        """Tell what is new, one piece at a time: however much there is, little of it is held here."""
        ended = reader.ended
        for piece in reader.poll(final=final):
            if self.way != "spool" and reader is self._reader:
                self.way = "spool"  # the first fact says so, and why
            if not self._hand(piece):
                return
        if reader.left and not ended:
            self._tell(Mirror(over=True))

    def _guess(self) -> None:
        """Nobody has come, nothing is written, and yet the tasks have run for long enough."""
        since = self._running_since
        if self.way or since is None or self._muster.came:
            return
        if time.monotonic() >= since + self._dial_s + MARGIN_S:
            spool = ", and the spool folder is not shared with them" if self._spool else ""
            self._choose("carried", f"no executor has reached this machine at {self._addresses}{spool}")
            self._note(OUT_OF_REACH + (WITHOUT_US if self._look is None else ""), "info")
            self._tell(Mirror())

    def _finish(self) -> None:
        """The last of the spool, or all that came home with the tasks."""
        if self._reader and self._reader.begun:
            self._mirror(self._reader, final=True)
        elif (run := self._luggage.unpack()) is not None:
            self.way = "carried"
            reader = self._reader_of(run)
            self._mirror(reader, final=True)
            if not self._luggage.whole:
                self._note(CUT, "warning")

    def _reader_of(self, run: Path) -> FieldReader:
        return FieldReader(run, self._folder, self._attempt, self._began)

    def _choose(self, way: str, reason: str) -> None:
        self.way = way
        self._tell(ev.DeliveryChosen(time=time.time(), way=way, reason=reason))

    def _give_up(self, request: ev.StopRequested, why: str) -> None:
        self._tell(request)
        self._note(why, "warning")
        self._cancel()

    def _note(self, text: str, level: str) -> None:
        self._tell(ev.NoteMade(time=time.time(), text=text, level=level))
