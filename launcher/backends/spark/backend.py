"""Agents as the tasks of one barrier stage, of a classic Spark session or through a Connect server.

Spark places the tasks and keeps their slots; each starts an agent beside its Python worker and waits for
its exit. The agents connect to the engine, and from then on Spark has nothing to do with the run.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ... import serialization
from ...agent.agent import BOOT
from ...agent.boot import Boot
from ...agent.watcher import BOOT as WATCHER
from ...channel import connection, handshake, network
from ...channel.certificates import issue
from ...channel.connecting import Endpoint
from ...channel.connection import AgentConnection
from ...channel.listener import HANDSHAKE_S, Listener
from ...channel.spool import Spool, check_spool
from ...errors import LauncherError, RowsFailed, SpecError
from ...placement.plan import Plan
from ...placement.refusals import EngineCutOff
from ...runs.files import opener
from ...selectable_queue import SelectableQueue
from ...serialization import MOST_INDEX
from ...spec.environment import carried_by
from ...spec.job import JobSpec
from ...spec.places import Offer
from ...spec.request import Request
from ...state import events as ev
from ..base import AgentsExpected, News, StageOver
from . import executors, internals, records
from .arrivals import Arrivals
from .config import ListenAt, listen_addresses
from .failures import REPARTITION, partitions_differ, read_failure
from .forked_agents import wanted
from .job import JobTitle, StageData, StageJob, TaskEnd, cancel_stage, run_stage
from .launcher_zip import launcher_zip
from .prediction.reading import WorkerFailed, failure_in
from .relay import Relay, relay_of
from .session import Session, find_active
from .session_pool import OwnSession, Sessions
from .sizing import CoreDemand, demand_of
from .slot_wait import PARTIAL_S, ReplaceSession, Replacing, Slots, await_slots, give_back
from .waiters import Waiters

SPARK_LOG = "spark.log"
CANCEL_EVERY_S = 0.5
# A server's first Python process takes seconds; agents that need no relay must not wait for one that hangs.
RELAY_S = 60.0
# How long `close` waits for the stage's thread when the server is gone.
GONE_S = 0.5
# The numbers of agents beside workers are those of Spark's tasks, and executors may come for as long.
WATCHERS = MOST_INDEX + 1
WATCHED_S = 30 * 86400.0
WAYS_OUT = (
    "--listen HOST:PORT names an address of this machine that executors reach, "
    "--spool DIR a folder that both see"
)


class SparkBackend:
    """A session, and one stage of agents at a time.

    Args:
        server: whether agents are started through a Connect server.
        sessions: where the session comes from; by default the caller's, or one for this run alone.
    """

    def __init__(self, sessions: Sessions | None = None, *, server: bool = False) -> None:
        self._server_wanted = server
        self._sessions: Sessions = sessions or OwnSession()
        self._log = Path()
        self._box: SelectableQueue[News] = SelectableQueue()
        self._caller_session: Any = None
        self._listen_at = ListenAt()
        self._session: Session | None = None
        self._thread: threading.Thread | None = None
        self._aborted = threading.Event()
        self._over = threading.Event()
        self._relay: Relay | None = None
        self._complaints: list[str] = []
        self._server_gone = threading.Event()
        self._tag, self._tasks, self._has_data = "", 0, False
        self._unlimited = False
        self._waiters = Waiters()

    def reserve(self, request: Request, *, whole: bool) -> bool:
        """Reserve cores in the engine's session; False if other runs there leave too few.

        With `whole`, the session has no limit, so that it is for any number of runs.
        """
        return self._sessions.reserve(self, None if whole else self._demand(request))

    def offers(self, request: Request) -> tuple[Sequence[Offer] | None, str]:
        """None: only agents can find out what their hosts have. Finds the session that the caller has.

        Raises:
            SpecError: the address to listen at is invalid, or the spool folder cannot be used.
        """
        self._listen_at = ListenAt.parse(request.spec.spark.listen)
        if request.spec.spark.spool:
            check_spool(request.spec.spark.spool)
        if not self._sessions.shared:
            session = request.session
            self._caller_session = find_active(server=self._server_wanted) if session is None else session
        return None, ""

    def launch(self, request: Request, plan: Plan | None, folder: Path, *, attempt: int) -> None:
        """Begin to wait for slots, on a new thread for the stage."""
        del plan
        # new events, so that a thread that still cancels the last stage does not affect this one
        self._aborted, self._over, self._tag = threading.Event(), threading.Event(), ""
        work = threading.Thread(
            target=self._run_and_report, args=(request, folder, attempt), name="rankdeck-stage", daemon=True
        )
        self._thread = work
        work.start()

    def fileno(self) -> int:
        """Readable while there is news."""
        return self._box.fileno()

    def news(self) -> list[News]:
        """Facts, agents that joined, and the end of the stage."""
        return self._box.take()

    def abort(self) -> None:
        """Stop waiting for slots, and cancel the job repeatedly: it may be about to begin."""
        if not self._aborted.is_set():
            self._aborted.set()
            args = (self._over,)
            threading.Thread(target=self._cancel, args=args, name="rankdeck-cancel", daemon=True).start()

    def close(self, timeout_s: float) -> bool:
        """Wait for the stage's end, then give back the session; whether the stage's thread has ended."""
        if self._thread is not None:
            self.abort()
            self._thread.join(min(timeout_s, GONE_S) if self._server_gone.is_set() else timeout_s)
        if self._session is not None:
            self._sessions.let_go(self._session, self._log)
        self._sessions.release(self)
        self._box.close()
        return self._thread is None or not self._thread.is_alive()

    def settings(self, names: Sequence[str]) -> Mapping[str, str]:
        """The session's settings, once it is open; none of a session that does not tell them."""
        session = self._session
        if session is None or not session.settings_known:
            return {}
        try:
            found = {name: session.conf(name) for name in names}
        except Exception:  # noqa: BLE001  whatever pyspark raises for a session that is gone: it tells nothing
            return {}
        return {name: value for name, value in found.items() if value}

    def complaint(self) -> str:
        """What agents wrote to their own stderr."""
        return "; ".join(self._complaints[:3])

    # --- the stage's thread --------------------------------------------------------------------------

    def _run_and_report(self, request: Request, folder: Path, attempt: int) -> None:
        error: LauncherError | None = None
        run = self._run if request.spec.prediction is None else self._predict
        try:
            run(request, folder, attempt)
        except LauncherError as raised:
            error = raised
        except Exception as raised:  # noqa: BLE001  whatever Java raised
            error = self._interpret(raised, folder)
        finally:
            self._over.set()
            self._box.put(StageOver(error))

    def _run(self, request: Request, folder: Path, attempt: int) -> None:
        spec = request.spec
        data = _stage_data(request)
        with contextlib.ExitStack() as cleanup:
            session, relay, slots = self._open_and_wait(request, folder, attempt, cleanup)
            if slots is None:
                return
            spool = Spool(spec.spark.spool, folder.name, attempt) if spec.spark.spool else None
            if spool is not None:
                cleanup.callback(spool.close)
            listener, boot = self._listen(
                session,
                spec,
                lambda link: arrivals.admit(link),
                agents=slots.tasks,
                lifetime_s=spec.start_timeout_s,
                # by relay or spool folder, a handshake takes several exchanges, each as slow as the server
                handshake_s=connection.HANDSHAKE_S if relay or spool else HANDSHAKE_S,
            )
            cleanup.callback(self._close_listener, listener)
            arrivals = Arrivals(
                slots.tasks,
                " or ".join(f"{e.host}:{e.port}" for e in boot.endpoints),
                relay=relay,
                spool=spool,
                report=self._box.put,
            )
            indirect = self._open_carriers(relay, spool, listener.address)
            boot = replace(
                boot,
                endpoints=boot.endpoints + indirect,
                find_gpus=slots.find_gpus,
                spool=str(spool.folder) if spool else "",
                marker=spool.marker if spool else "",
            )
            job = StageJob(
                tasks=slots.tasks,
                tag=_new_tag(folder, attempt),
                title=_title(folder, spec),
                boot=json.dumps(serialization.to_plain(boot)),
                program=BOOT,
                warm=wanted(request, {**carried_by(request), **spec.env}, launcher_zip()),
                profile=slots.profile,
                data=data,
            )
            done = self._submit(session, job, slots.gpu_reason)
        self._complaints = [text for end in done if (text := _complaint(end))]

    def _listen(
        self,
        session: Session,
        spec: JobSpec,
        admit: Callable[[AgentConnection], None],
        *,
        agents: int,
        lifetime_s: float,
        handshake_s: float = HANDSHAKE_S,
    ) -> tuple[Listener, Boot]:
        """Listen for agents; their boot document has the addresses at which they may reach us directly."""
        issued, token = issue(lifetime_s=lifetime_s), handshake.new_token()
        host, advertised = listen_addresses(
            self._listen_at, driver=session.driver_host, bind=session.bind_address
        )
        listener = Listener(
            host,
            self._listen_at.ports,
            issued.engine,
            token,
            admit=admit,
            agents=agents,
            lost_after_s=spec.spark.lost_after_s,
            handshake_s=handshake_s,
        )
        boot = Boot(
            agent=0,
            token=token,
            endpoints=tuple(Endpoint(name, listener.address[1]) for name in advertised),
            namespace=network.namespace(),
            credentials=serialization.to_plain(issued.agents),
            lost_after_s=spec.spark.lost_after_s,
            lifeline=True,
            sample_s=spec.sample_s,
        )
        return listener, boot

    def _predict(self, request: Request, folder: Path, attempt: int) -> None:
        """Run a prediction, whose tasks need not run at once: each begins when Spark has a slot for it."""
        from .prediction.job import PredictionJob, run_prediction
        from .prediction.packing import PackedFunction

        spec = request.spec
        assert request.payload is not None
        function = PackedFunction.decode(request.payload)
        with contextlib.ExitStack() as cleanup:
            session = self._open(request, folder)
            listener, boot = self._listen(session, spec, self._box.put, agents=WATCHERS, lifetime_s=WATCHED_S)
            cleanup.callback(listener.close)
            self._tag, self._has_data = _new_tag(folder, attempt), True
            self._box.put(ev.StageSubmitted(time=time.time(), tasks=spec.num_processes))
            job = PredictionJob(
                spec=spec,
                function=function,
                dataframe=request.data.dataframe if request.data else None,
                title=JobTitle(self._tag, _title(folder, spec)),
                boot=json.dumps(serialization.to_plain(replace(boot, find_gpus=spec.gpu is not False))),
                program=WATCHER,
                tell=lambda fact: self._box.put(replace(fact, time=time.time())),
                aborted=self._aborted,
            )
            if not self._aborted.is_set():
                run_prediction(session, job)

    def _open_and_wait(
        self, request: Request, folder: Path, attempt: int, cleanup: contextlib.ExitStack
    ) -> tuple[Session, Relay | None, Slots | None]:
        """Open the session and wait for slots in it, or in those that replace it."""
        session = self._open(request, folder)
        relay = self._begin_relay(session, request.spec, cleanup)
        partial_s, began = PARTIAL_S, time.monotonic()
        while True:
            cleanup.callback(give_back, session, folder.name)
            replacing = self._replacing(session, partial_s)
            waited_s = time.monotonic() - began if partial_s > PARTIAL_S else 0.0
            try:
                slots = self._await_slots(session, request.spec, folder.name, attempt, replacing, waited_s)
            except ReplaceSession as reason:
                self._box.put(ev.NoteMade(time=time.time(), text=reason.why))
                self._unlimited |= reason.unlimited
                self._session, partial_s = None, 2 * partial_s
                session = self._open(request, folder)
            else:
                return session, relay, slots

    def _replacing(self, session: Session, partial_s: float) -> Replacing | None:
        """When a session is replaced; None for one that is not ours."""
        if not session.owned:
            return None
        older, end = partial(self._waiters.older, session), partial(self._sessions.end, session, self._log)
        return Replacing(not self._unlimited, older, end, partial_s)

    def _await_slots(
        self,
        session: Session,
        spec: JobSpec,
        run: str,
        attempt: int,
        replacing: Replacing | None,
        waited_s: float,
    ) -> Slots | None:
        """Wait for slots. While it waits, this is on record, for idle sessions of the same user."""
        with records.Wait(run, session.master, session.application) as record:

            def tell(fact: ev.SlotsAwaited) -> None:
                record.write()
                self._box.put(fact)

            slots = await_slots(
                session,
                spec,
                aborted=self._aborted,
                tell=tell,
                run=run,
                attempt=attempt,
                replacing=replacing,
                waited_s=waited_s,
            )
        if slots is not None and slots.unknown:
            text = f"{slots.unknown}; Spark waits for them itself"
            self._box.put(ev.NoteMade(time=time.time(), text=text))
        return slots

    def _demand(self, request: Request) -> CoreDemand | None:
        """The cores that an application of ours needs for the run; None for no limit.

        What is wrong with the request is reported when its session is made.
        """
        prediction = request.spec.prediction
        if prediction is not None and prediction.workers is None:
            return None
        with contextlib.suppress(LauncherError):
            return demand_of(request.spec, request.environ, server=self._server_wanted)
        return None

    def _begin_relay(self, session: Session, spec: JobSpec, cleanup: contextlib.ExitStack) -> Relay | None:
        """Start a relay for a Connect session; it comes up while the run may wait for slots."""
        self._relay = relay_of(session, spec.num_processes, self._on_server_gone) if session.remote else None
        if self._relay is not None:
            self._relay.start()
            cleanup.callback(self._end_relay, self._relay)
        return self._relay

    def _open_carriers(
        self, relay: Relay | None, spool: Spool | None, engine: tuple[str, int]
    ) -> tuple[Endpoint, ...]:
        """Connect relay and spool folder to the listener; the relay's address for agents, if it is up."""
        if spool is not None:
            spool.open(engine)
        endpoint = relay.open(engine, RELAY_S) if relay is not None else None
        return (endpoint,) if endpoint is not None else ()

    def _end_relay(self, relay: Relay) -> None:
        relay.close()
        if relay.lost:
            self._box.put(ev.NoteMade(time=time.time(), text=relay.lost, level="warning"))

    def _submit(self, session: Session, job: StageJob, gpu_reason: str) -> list[TaskEnd]:
        """Run the stage and return how its tasks ended."""
        if self._aborted.is_set():
            return []
        expected = AgentsExpected(job.tasks, gpu_reason)
        self._box.put(ev.StageSubmitted(time=time.time(), tasks=job.tasks), expected)
        self._tag, self._tasks, self._has_data = job.tag, job.tasks, job.data is not None
        return run_stage(session, job)

    def _close_listener(self, listener: Listener) -> None:
        listener.close()
        if text := listener.summary():
            self._box.put(ev.NoteMade(time=time.time(), text=text, level="warning"))

    def _open(self, request: Request, folder: Path) -> Session:
        """The session of the run, opened with its first stage."""
        if self._session is None:
            self._log = folder / SPARK_LOG
            demand = None if self._unlimited else self._demand(request)
            self._session = self._sessions.open(
                request.spec.spark,
                session=self._caller_session,
                given=request.session is not None,
                environ=request.environ,
                log=self._log,
                app_name=f"rankdeck {request.spec.redacted().label}",
                slots=request.spec.num_processes,
                server=self._server_wanted,
                limit_s=request.spec.start_timeout_s,
                demand=demand,
            )
            notes = (ev.NoteMade(time=time.time(), text=text) for text in self._session.notes)
            self._box.put(_ready(self._session), *notes)
        return self._session

    def _cancel(self, over: threading.Event) -> None:
        """Cancel repeatedly until the stage is over: Spark ignores a request that comes before the job."""
        while not over.is_set():
            try:
                if self._session and self._tag:
                    cancel_stage(self._session, self._tag)
            except Exception as error:  # noqa: BLE001  a broken session's jobs end with it
                self._complaints.append(f"Spark could not cancel the job: {str(error).splitlines()[0]}")
            over.wait(CANCEL_EVERY_S)

    def _on_server_gone(self, lost: ev.ServerLost | None = None) -> None:
        """Report once that the server is gone. That ends the stage, whatever pyspark still tries."""
        if self._session is not None and not self._server_gone.is_set():
            self._server_gone.set()
            self._session.broken = True
            self._box.put(lost or ev.ServerLost(time=time.time(), server=self._server), StageOver())

    def _relay_failure(self) -> str:
        """Why agents could not connect through the Connect server either; empty without a relay."""
        if self._relay is None:
            return ""
        why = self._relay.why or "agents do not reach it"
        return f"a relay beside the Connect server was tried: {why}"

    @property
    def _server(self) -> str:
        return self._session.master if self._session is not None and self._session.remote else ""

    def _interpret(self, raised: Exception, folder: Path) -> LauncherError | None:
        """The error that Spark's exception means, if no fact does. Its text goes to the run's Spark log."""
        with open(folder / SPARK_LOG, "a", opener=opener) as file:
            file.write(f"\n{raised}\n")
        if self._has_data and not self._aborted.is_set() and (worker := failure_in(str(raised))) is not None:
            return WorkerFailed(worker)
        failure = read_failure(
            raised,
            time=time.time(),
            tasks=self._tasks,
            server=self._server,
            computes_rows=self._has_data,
        )
        if isinstance(failure.event, ev.ServerLost):
            self._on_server_gone(failure.event)
            return None
        if self._aborted.is_set() and not isinstance(failure.error, RowsFailed):
            return None  # the exception is the result of our cancellation
        if isinstance(failure.error, EngineCutOff):
            failure.error.hint = "; ".join(filter(None, (self._relay_failure(), WAYS_OUT)))
        if failure.event is not None:
            self._box.put(failure.event)
        return failure.error


def _new_tag(folder: Path, attempt: int) -> str:
    return f"rankdeck-{folder.name}-{attempt}-{uuid.uuid4().hex[:8]}"


def _title(folder: Path, spec: JobSpec) -> str:
    return f"rankdeck {folder.name}: {spec.redacted().label}"


def _stage_data(request: Request) -> StageData | None:
    """The data of the stage, with as many partitions as the run has tasks as far as that is known already.

    With more than there are slots, Spark would only say so after ten minutes.

    Raises:
        SpecError: their numbers differ, and the caller wants the partitions as they are.
    """
    if (data := request.data) is None:
        return None
    dataframe, shares = data.dataframe, request.spec.ranks_per_task
    tasks, has = request.spec.num_processes // shares, internals.partitions(dataframe)
    if data.repartition or (data.repartition is None and has != tasks):
        dataframe = dataframe.repartition(tasks)
    elif has is not None and has != tasks:
        raise SpecError(partitions_differ(has, tasks), hint=REPARTITION)
    return StageData(dataframe, 1 if data.spooled_first else shares, data.settings, data.spooled_first)


def _ready(session: Session) -> ev.SparkReady:
    return ev.SparkReady(
        time=time.time(),
        application=session.application,
        master=session.master,
        name=session.name,
        version=session.version,
        ui=session.ui,
        remote=session.remote,
        pages=executors.master_pages(session),
    )


def _complaint(end: TaskEnd) -> str:
    """The last line that an agent wrote to its stderr; empty if it ended with 0."""
    lines = end.errors.strip().splitlines()
    return f"agent {end.agent} said: {lines[-1]}" if lines and end.code else ""
