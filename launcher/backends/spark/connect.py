"""Connections to a Spark master or a Connect server, and checks that it answers."""

from __future__ import annotations

import contextlib
import importlib
import os
import queue
import socket
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from ...errors import CannotPlace, SpecError
from ...spec import spark_address
from . import internals

PROBE_S = 5.0
RELEASE_S = 2.0
ANSWER_S = 4.0
REFUSED_S = 2.0
_SETTLE_S = 20.0
_NEEDS = {
    "pyspark": "pyspark",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "grpcio": "grpc",
    "grpcio-status": "grpc_status",
    "googleapis-common-protos": "google.rpc",
}


def probe(hosts: Sequence[tuple[str, int]], what: str) -> str:
    """This machine's own address towards the first of these hosts that accepts a connection.

    Raises:
        CannotPlace: none of them accepts a connection.
    """
    reasons = []
    for host, port in hosts:
        try:
            with socket.create_connection((host, port), timeout=PROBE_S) as connection:
                return str(connection.getsockname()[0])
        except TimeoutError:
            reasons.append(f"{host}:{port} does not answer within {PROBE_S:.0f} s")
        except socket.gaierror:
            reasons.append(f"no host is known by the name of {host}")
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror}")
    raise CannotPlace(f"there is no {what}: {', and '.join(reasons)}")


def connect_remote(remote: str, limit_s: float) -> Any:
    """Make a session of a Connect server, but not this process's default.

    Raises:
        SpecError: the URL is invalid.
        CannotPlace: a package is missing, nothing listens there, or it does not answer as a Connect server.
    """
    host_and_port = spark_address.endpoint(remote)
    quieten()
    with _quiet_grpc():
        sessions = _client_package()
        probe([host_and_port], "Spark Connect server")
        try:
            session = sessions.SparkSession(connection=remote)
        except ValueError as error:
            raise SpecError(f"{remote} is no Connect server's address: {error}") from error
        try:
            _settle(session, remote, min(limit_s, _SETTLE_S))
        except BaseException:
            session.release_session_on_close = False
            release(session)
            raise
    return session


def release(session: Any) -> None:
    """End a session of ours; wait at most `RELEASE_S` seconds, since the server may be gone."""
    with contextlib.suppress(AttributeError):
        session.client.set_retry_policies([])
    thread = threading.Thread(target=session.stop, name="connect-release", daemon=True)
    thread.start()
    thread.join(RELEASE_S)


def quieten() -> None:
    """Keep pyspark's warning about the version of pandas off our terminal."""
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support", category=FutureWarning)


def _settle(session: Any, remote: str, limit_s: float) -> None:
    """Wait until the server has answered as a Connect server."""
    if (channel := internals.channel(session)) is not None:  # else the first request shows it, only later
        _await_ready(channel, remote, limit_s)
    with contextlib.suppress(AttributeError):
        session.client.set_retry_policies([])
    try:
        _ = session.version
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CannotPlace(f"the Spark Connect server at {remote} refuses: {_detail(reason)}") from error
    with contextlib.suppress(AttributeError, ImportError):
        session.client.set_retry_policies([_retry_policy()])


def _await_ready(channel: Any, remote: str, limit_s: float) -> None:
    """Wait until a gRPC channel is ready, but only `REFUSED_S` seconds after a connection failed.

    A tunnel or a balancer whose server is down accepts connections and closes them at once.
    """
    import grpc  # type: ignore[import-untyped]

    states: queue.SimpleQueue[Any] = queue.SimpleQueue()
    channel.subscribe(states.put, try_to_connect=True)
    began, refused = time.monotonic(), float("inf")
    try:
        while (left := min(began + limit_s, refused + REFUSED_S) - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                state = states.get(timeout=left)
                if state is grpc.ChannelConnectivity.READY:
                    return
                if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                    refused = min(refused, time.monotonic())
    finally:
        channel.unsubscribe(states.put)
    closes = "; it closes connections at once" if refused < float("inf") else ""
    raise CannotPlace(
        f"what listens at {remote} does not answer as a Spark Connect server within"
        f" {time.monotonic() - began:.0f} s{closes}",
        hint="a server behind TLS needs ;use_ssl=true in its address",
    )


def _retry_policy() -> Any:
    """Retries for 1 s in all, instead of pyspark's ten minutes, when a server does not answer."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    return DefaultPolicy(
        max_retries=3, initial_backoff=150, backoff_multiplier=2.0, max_backoff=1000, jitter=0
    )


def answers(session: Any, master: str) -> bool:
    """Whether the server confirms within seconds that it still has the session."""
    if not listens(master):
        return False
    answered: list[bool] = []

    def query() -> None:
        with contextlib.suppress(Exception):
            answered.append(bool(session.conf.get("spark.app.id")))

    thread = threading.Thread(target=query, name="connect-answers", daemon=True)
    thread.start()
    thread.join(ANSWER_S)
    return answered == [True]


def _detail(text: str) -> str:
    """The message in the text of a gRPC error."""
    _, separator, rest = text.partition('details = "')
    return rest.partition('"')[0] if separator else text


def _client_package() -> Any:
    """pyspark's client module. Its own check of its requirements exits a program whose main has no file."""
    missing = [package for package, module in _NEEDS.items() if not _importable(module)]
    try:
        if missing:
            raise ImportError(f"no {' and no '.join(missing)}")
        from pyspark.sql.connect import session as package
    except (ImportError, SystemExit) as error:
        first = str(error).strip().partition("\n")[0]
        raise CannotPlace(
            f"connect mode needs packages that this Python does not have: {first}",
            hint="pip install 'pyspark[connect]'; --mode local needs none of it",
        ) from error
    return package


def _importable(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


@contextlib.contextmanager
def _quiet_grpc() -> Iterator[None]:
    """Keep gRPC's log off standard error; gRPC reads the variable only when it starts."""
    name = "GRPC_VERBOSITY"
    if name in os.environ:
        yield
        return
    os.environ[name] = "NONE"
    try:
        yield
    finally:
        os.environ.pop(name, None)


def listens(master: str) -> bool:
    """Whether a process listens at a Connect server's address; also true if that is not known."""
    try:
        host, port = spark_address.endpoint(master)
        with socket.create_connection((host, port), timeout=1.0):
            return True
    except ConnectionRefusedError:
        return False
    except (OSError, SpecError):
        return True
