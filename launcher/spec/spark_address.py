"""Addresses of Spark masters and Connect servers: their forms, and the cure for a wrong one. Pure.

Only the form counts here: whether anything listens there is found out when a session is opened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import SpecError
from .redaction import redacted_text

if TYPE_CHECKING:
    from .job import SparkSpec

SERVER = "sc://"
CONNECT_PORT = 15002
MASTER_PORT = 7077
_MASTERS = "such as spark://host:7077, k8s://https://host:6443, yarn or local[4]"
_SERVERS = "such as sc://host:15002"
_LOCAL = re.compile(
    r"local(\[([0-9]+|\*)(\s*,\s*[0-9]+\s*)?\]|-cluster\[\s*[0-9]+\s*,\s*[0-9]+\s*,\s*[0-9]+\s*\])?"
)
_OTHERS = re.compile(r"(k8s|mesos)://\S+|yarn")
_STANDALONE = "spark://"
# an address without its scheme, or with that of a web page
_BARE = re.compile(
    r"(?P<page>https?://)?(?:[^\s/@]*@)?(?P<host>\[[\da-fA-F:.]+\]|[\w.-]+)(?::(?P<port>\d{1,5}))?(?:/.*)?"
)
_SHOWN = 100


def check_addresses(spark: SparkSpec) -> None:
    """Check the addresses that a request names.

    Raises:
        SpecError: one has not the form of its kind.
    """
    for value, origin in named_addresses(spark):
        if value:
            check_address(value, origin)


def check_environment(spark: SparkSpec, environ: Mapping[str, str]) -> None:
    """Check SPARK_REMOTE where the request names no address: it comes next.

    Raises:
        SpecError: it names no Connect server.
    """
    value = environ.get("SPARK_REMOTE", "")
    if value and not any(address for address, _ in named_addresses(spark)):
        check_address(value, "SPARK_REMOTE")


def named_addresses(spark: SparkSpec) -> tuple[tuple[str, str], ...]:
    """The addresses in a request, in order of precedence, each with the option that names it."""
    return (
        (spark.master, "--master"),
        (spark.remote, "--remote"),
        (spark.conf.get("spark.master", ""), "--conf spark.master"),
        (spark.conf.get("spark.remote", ""), "--conf spark.remote"),
    )


def check_address(value: str, origin: str) -> None:
    """Check an address by the option, variable or file that names it.

    Raises:
        SpecError: it has neither the form of a master nor that of a server, or is of the wrong kind.
    """
    if value.startswith(SERVER):
        endpoint(value)
    elif origin.lower().endswith("remote"):
        raise SpecError(
            f"{origin} names {shown(value)}, which is no Connect server's address",
            hint=_server_hint(value, origin),
        )
    elif not _is_master(value):
        raise SpecError(
            f"{origin} names {shown(value)}, which is no Spark master", hint=_master_hint(value, origin)
        )


def endpoint(remote: str) -> tuple[str, int]:
    """Host and port of a Connect server's URL.

    Raises:
        SpecError: it is not such a URL.
    """
    host, port = host_port(remote.removeprefix(SERVER).partition("/")[0], CONNECT_PORT)
    if not remote.startswith(SERVER) or not host:
        raise SpecError(f"{shown(remote)} is no Connect server's address", hint=_SERVERS)
    return host, port


def host_port(text: str, default: int = 0) -> tuple[str, int]:
    """Split ``host:port``, ``host`` or ``[::1]:port``; SpecError if the port is invalid."""
    match = re.fullmatch(r"(\[[^]]*\]|[^:]*)(?::(\d{1,5}))?", text)
    if match is None or int(match[2] or default) > 65535:
        raise SpecError(f"{shown(text)} is no host and port")
    return match[1].strip("[]"), int(match[2] or default)


def standalone_hosts(master: str) -> list[tuple[str, int]]:
    """Hosts and ports of a standalone master; several if it can fail over.

    Raises:
        SpecError: a host or a port is missing.
    """
    if not master.startswith(_STANDALONE):
        return []
    hosts = [host_port(part) for part in master.removeprefix(_STANDALONE).split(",")]
    if not all(host and port for host, port in hosts):
        raise SpecError(f"{shown(master)} is no master's address", hint="such as spark://host:7077")
    return hosts


def is_local(master: str) -> bool:
    """Whether tasks run in the driver's own JVM, or in executors beside it."""
    return _LOCAL.fullmatch(master) is not None


def shown(address: str) -> str:
    """An address for a message: without its parameters, which may hold a token, and in one short line."""
    text = redacted_text(address.partition(";")[0])
    text = text if text.strip() == text and text.isprintable() and text else repr(text)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _is_master(value: str) -> bool:
    return bool(standalone_hosts(value)) or is_local(value) or _OTHERS.fullmatch(value) is not None


def _server_hint(value: str, origin: str) -> str:
    text = value.strip()
    if text.startswith(_STANDALONE) or is_local(text) or _OTHERS.fullmatch(text):
        return f"it is a master: --master takes it, and --remote a server, {_SERVERS}"
    match = _BARE.fullmatch(text.partition(";")[0])
    if match is None:
        return _SERVERS
    secure = match["page"] == "https://"
    port = match["port"] or ("443" if secure else CONNECT_PORT)
    parameters = "/;use_ssl=true" if secure else "/;…" if ";" in text else ""
    return _did_you_mean(origin, f"{SERVER}{match['host']}:{port}{parameters}")


def _master_hint(value: str, origin: str) -> str:
    text = value.strip()
    scheme, colon, rest = text.partition(":")
    lowered = scheme.lower() + colon + rest
    try:
        if lowered != value and _is_master(lowered):
            return _did_you_mean(origin, shown(lowered))
    except SpecError:
        return _MASTERS
    if text in ("yarn-client", "yarn-cluster"):
        return _did_you_mean(origin, "yarn")
    match = _BARE.fullmatch(text)
    if match is None or not (match["page"] or match["port"]):
        return _MASTERS
    if match["page"] == "https://":
        return _did_you_mean(origin, f"k8s://{shown(text)}")
    # the page of a master has another port than the master
    port = MASTER_PORT if match["page"] else match["port"]
    return _did_you_mean(origin, f"{_STANDALONE}{match['host']}:{port}")


def _did_you_mean(origin: str, address: str) -> str:
    joint = "=" if " " in origin or not origin.startswith("-") else " "
    return f"did you mean {origin}{joint}{address}?"
