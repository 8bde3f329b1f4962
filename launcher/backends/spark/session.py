"""The Spark session of a run: the active one, or one that we make.

An existing session is used and not changed. One that we make is stopped by us; its JVM writes to a file and
not to our terminal, and ends with this process, however that ends.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ...channel import network
from ...errors import SpecError
from ...spec import spark_address
from ...spec.job import SparkSpec
from . import config, connect, guarded, internals, jvm
from .config import SparkConfig
from .guarded import ask
from .jvm import ContextRequest

_LOOPBACK = "127.0.0.1"
_KEPT = "this Spark session keeps its settings to itself: whether it assigns GPUs is unknown, for one"
_adopting = threading.Lock()
_adopted: list[Session] = []
"""The caller's session that was used last; a process has one at a time."""


@dataclass(eq=False)
class Session:
    """A Spark to run on.

    Attributes:
        context: the SparkContext; None for a Connect server, which has none on this side.
        remote: whether it is a Connect server's.
        owned: whether it was made here, and is stopped by `close`.
        application, name, master, version: as Spark reports them.
        ui: the address of its own pages; empty if that is not known.
        driver_host: the address at which executors reach this process.
        bind_address: the address to listen at for them.
        notes: for people, about how it was made.
        limit: the ``spark.cores.max`` that we requested for its runs; None if we requested none.
        broken: whether a run has seen it end.
        claims: the slots that runs hold, by run; guarded by `claiming`.
        pages: the URLs of its standalone masters' pages, as `executors.master_pages` has found them.
        settings_known: False where it refuses to tell its settings; `conf` then gives defaults.
    """

    context: Any
    remote: bool
    owned: bool
    application: str
    name: str
    master: str
    version: str
    ui: str
    driver_host: str
    bind_address: str
    notes: tuple[str, ...] = ()
    pages: tuple[str, ...] | None = None
    settings_known: bool = True
    limit: int | None = None
    broken: bool = False
    claims: dict[str, int] = field(default_factory=dict)
    claiming: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _session: Any = field(default=None, repr=False)
    _jvm: jvm.Jvm | None = field(default=None, repr=False)
    _closed: bool = field(default=False, repr=False)

    @cached_property
    def spark(self) -> Any:
        """The SparkSession; made on first use where there is only a context, because that takes a second."""
        if self._session is not None:
            return self._session
        from pyspark.sql import SparkSession

        return SparkSession(self.context)

    @cached_property
    def settings(self) -> Any:
        """As `guarded.settings_of` its context, which copies them once."""
        return guarded.settings_of(self.context)

    def is_of(self, context: Any, session: Any) -> bool:
        """Whether it describes this context, and this session or the context alone; not if it has broken."""
        same = self.context is context and self._session is (None if session is context else session)
        return same and not self.broken

    @property
    def local(self) -> bool:
        """Whether tasks run in the driver's own JVM, where there are no executors and no profiles."""
        return self.master.startswith("local") and not self.master.startswith("local-cluster")

    def conf(self, key: str, default: str = "") -> str:
        """The value of a setting; the default if it is not set, or if the session refuses to tell."""
        if not self.remote:
            return guarded.setting(self.settings, self._session, key) or default
        try:
            return str(self.spark.conf.get(key, default))
        except Exception as error:
            if "SQL_CONF_NOT_FOUND" in str(error):
                return default
            raise

    @property
    def usable(self) -> bool:
        """Whether it can still run something: its JVM or its server is there, and it was not stopped."""
        if self.broken:
            return False
        try:
            if self.remote:
                return connect.answers(self.spark, self.master)
            if self._jvm is not None and self._jvm.process.poll() is not None:
                return False
            return not guarded.has_ended(self.context)
        except Exception:  # noqa: BLE001  # whatever a broken session raises
            return False

    def close(self) -> None:
        """Stop it if it is ours, and return when its JVM is gone. Calling it again does nothing."""
        if self._closed or not self.owned:
            return
        self._closed = True
        if self.remote:
            connect.release(self.spark)
        elif self._jvm is None:
            self.context.stop()
        else:
            jvm.end_context(self.context, self._jvm)


def open_session(
    spec: SparkSpec,
    *,
    session: object | None,
    environ: Mapping[str, str],
    log: Path,
    app_name: str,
    slots: int,
    server: bool,
    given: bool = True,
    limit_s: float = 600.0,
    cores: int | None = None,
) -> Session:
    """Find or make the session of a run.

    Args:
        spec: the request's Spark options.
        session: a session or a context of the caller's; None to find one.
        environ: the caller's environment.
        log: the file that a JVM of ours writes to.
        app_name: the name of an application of ours.
        slots: how many tasks run at once, if Spark has to be embedded in this machine.
        server: whether it has to be a Connect server.
        given: whether the caller named `session`; else it was found in the caller's thread.
        limit_s: seconds that making a session may take.
        cores: how many an application of ours may take; None for any number.

    Raises:
        SpecError: the request cannot be met, such as another master than the active session's.
        CannotPlace: no Spark can be reached or started as request and environment specify.
    """
    existing = session if session is not None else find_active(server=server)
    given = given and session is not None
    if existing is not None and (given or not _names_server_beside(existing, spec, server=server)):
        return _adopt(existing, spec, server=server, given=given)
    connect.quieten()
    home = jvm.spark_home(environ)
    around = config.spark_environment(environ, home)
    choice = config.choose_spark(spec, around, slots, server=server)
    if choice.remote:
        return _open_remote(choice, spec, limit_s)
    order = ContextRequest(spec, around, choice, log, app_name, slots, limit_s, cores)
    made = jvm.make_context(order)
    return _describe_classic(made.context, None, owned=True, notes=made.notes, limit=cores, _jvm=made.jvm)


def is_connect(session: Any) -> bool:
    """Whether a session is a client's of a Connect server."""
    package = sys.modules.get("pyspark.sql.connect.session")
    return package is not None and isinstance(session, package.SparkSession)


def _names_server_beside(existing: Any, spec: SparkSpec, *, server: bool) -> bool:
    """Whether the request names a Connect server: its client may live beside an active classic session."""
    return (
        server and not is_connect(existing) and any(value for value, _ in spark_address.named_addresses(spec))
    )


def _adopt(existing: Any, spec: SparkSpec, *, server: bool, given: bool) -> Session:
    """Use an existing session, after checking that the request names no other."""
    origin = "given to the run" if given else "already active in this process"
    if is_connect(existing):
        adopted = _describe_remote(existing, owned=False)
        named = spec.remote or spec.conf.get("spark.remote", "") or spec.master
        same = bool(named) and _same_server(named, adopted.master)
    else:
        adopted = _adopt_classic(existing)
        if server:
            raise SpecError(
                f"the Spark session {origin} is no Spark Connect session",
                hint="use mode cluster with it, or leave it out and name a server",
            )
        named = spec.master or spec.conf.get("spark.master", "") or spec.remote
        same = named == adopted.master
    if named and not same:
        raise SpecError(
            f"a Spark session on {adopted.master} is {origin} and cannot be moved to {named}",
            hint="stop it, or leave out the other's name",
        )
    _check_conf(adopted, spec, origin)
    return adopted


def _adopt_classic(existing: Any) -> Session:
    """The caller's session or context, with what earlier runs have learnt of it: it takes 50 ms to learn."""
    context = _context_of(existing)
    with _adopting:
        if not any(known.is_of(context, existing) for known in _adopted):
            _adopted[:] = [_describe_classic(context, existing, owned=False)]
        return _adopted[0]


def _check_conf(adopted: Session, spec: SparkSpec, origin: str) -> None:
    for key, value in spec.conf.items():
        if key in ("spark.master", "spark.remote") or (now := adopted.conf(key)) == value:
            continue
        has = f"has {key}={now or 'unset'}" if adopted.settings_known else f"does not tell its {key}"
        raise SpecError(
            f"the Spark session {origin} {has}, which cannot be changed to {value}",
            hint="set it where that session is made",
        )


def _context_of(session: Any) -> Any:
    """The live SparkContext of a classic session, or of a context itself."""
    context = ask(lambda: session.sparkContext) if hasattr(type(session), "sparkContext") else session
    if context is None:
        raise SpecError(
            "this Spark session keeps its SparkContext to itself, so no barrier stage can be started on it",
            hint="use a Spark Connect session of the same cluster: --mode connect, with its sc:// address",
        )
    if not hasattr(type(context), "applicationId"):
        raise SpecError(f"a {type(session).__name__} is no Spark session")
    if guarded.has_ended(context):
        raise SpecError("the Spark session of this process has ended", hint="stop() it and make another")
    return context


def _describe_classic(context: Any, session: Any, *, owned: bool, **more: Any) -> Session:
    classic = session if session is not context else None
    made = Session(
        context=context,
        remote=False,
        owned=owned,
        application=ask(lambda: context.applicationId) or "",
        name=context.appName,
        master=context.master,
        version=ask(lambda: context.version) or _client_version(),
        ui=ask(lambda: context.uiWebUrl) or "",
        driver_host="",
        bind_address="",
        _session=classic,
        **more,
    )
    host = guarded.setting(made.settings, classic, "spark.driver.host")
    made.settings_known = host is not None
    made.notes = made.notes if made.settings_known else (*made.notes, _KEPT)
    made.driver_host = host or (_LOOPBACK if made.settings_known or made.local else socket.gethostname())
    made.bind_address = made.conf("spark.driver.bindAddress") or made.driver_host
    return made


def _client_version() -> str:
    """The version of pyspark here, which a classic session shares with its JVM."""
    import pyspark

    return str(pyspark.__version__)


def _describe_remote(session: Any, *, owned: bool, notes: tuple[str, ...] = ()) -> Session:
    host, port = _server_of(session)
    towards = host or str(ask(lambda: session.client.host) or "")
    address = _address_towards(towards) or socket.gethostname()
    made = Session(
        context=None,
        remote=True,
        owned=owned,
        application="",
        name="",
        master=f"sc://{host}:{port}" if host else f"sc://{towards or 'unknown'}:?",
        version=session.version,
        ui="",
        driver_host=address,
        bind_address=address,
        notes=notes,
        _session=session,
    )
    made.application = made.conf("spark.app.id")
    made.name = made.conf("spark.app.name")
    return made


def _address_towards(host: str) -> str:
    """Our own address towards a host; empty if there is no route."""
    try:
        return network.source_for(host) if host else ""
    except OSError:
        return ""


def _server_of(session: Any) -> tuple[str, int]:
    """Host and port of a Connect session's server; an empty host if that is unknown."""
    text = internals.endpoint(session) or ""
    try:
        return spark_address.host_port(text, spark_address.CONNECT_PORT)
    except SpecError:
        return "", 0


def _same_server(named: str, master: str) -> bool:
    if not named.startswith("sc://") or master.endswith(":?"):
        return False
    return spark_address.endpoint(named) == spark_address.endpoint(master)


def _open_remote(choice: SparkConfig, spec: SparkSpec, limit_s: float) -> Session:
    session = connect.connect_remote(choice.remote, limit_s)
    try:
        for key, value in spec.conf.items():
            if key not in ("spark.master", "spark.remote"):
                _set_remote(session, key, value)
        return _describe_remote(session, owned=True)
    except BaseException:
        connect.release(session)
        raise


def _set_remote(session: Any, key: str, value: str) -> None:
    try:
        session.conf.set(key, value)
    except Exception as error:
        raise SpecError(
            f"{key} cannot be set from a client of a Connect server",
            hint="set it where the server is started",
        ) from error


def find_active(*, server: bool = False) -> Any:
    """The session that is active in this process, or None; of two, the one of the required kind.

    A Connect session may be active in one thread only. So call this on the caller's own thread: a thread of
    ours does not see it.
    """
    remote, classic = _active_connect(), _active_classic()
    return (remote or classic) if server else (classic or remote)


def callers_session() -> Any:
    """The SparkSession that pyspark takes for the calling thread's; None without one."""
    package = sys.modules.get("pyspark.sql.session")
    if package is None:
        return None
    try:
        return package.SparkSession.active()
    except RuntimeError:  # there is none
        return None


def _active_classic() -> Any:
    """The active context of any thread; where pyspark hides it, this thread's active session."""
    package = sys.modules.get("pyspark.sql.session")
    if (context := internals.active_context()) is not None or package is None:
        return context
    with contextlib.suppress(ImportError):  # where Connect is the default, and not installed
        return ask(lambda: package.SparkSession.getActiveSession())
    return None


def _active_connect() -> Any:
    package = sys.modules.get("pyspark.sql.connect.session")
    if package is None:
        return None
    try:
        return package.SparkSession.active()  # this thread's, or the default of all threads
    except RuntimeError:
        return None
