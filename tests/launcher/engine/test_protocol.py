"""What clients and engines say arrives as it was said, or not at all."""

from __future__ import annotations

import inspect
import json
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from launcher import errors
from launcher.engine.protocol import (
    Conversation,
    Message,
    error_document,
    error_from,
    pack_request,
    unpack_request,
)
from launcher.errors import InternalError, LauncherError, RankFailed
from launcher.spec.files.bundle import Bundle, Manifest, SentFile
from launcher.spec.inherited import Inherited
from launcher.spec.job import JobSpec, SparkSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.request import Request

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
NAMES = st.text("ABC_x", min_size=1, max_size=8)
FILES = st.lists(st.builds(SentFile, TEXT, TEXT, st.integers(0, 1 << 60)), max_size=3).map(tuple)
REQUESTS = st.builds(
    Request,
    spec=st.builds(
        JobSpec,
        target=st.builds(
            Target,
            kind=st.sampled_from(TargetKind),
            source=TEXT,
            name=TEXT,
            args=st.lists(TEXT, max_size=3).map(tuple),
            kwargs=st.lists(st.tuples(TEXT, TEXT), max_size=3).map(tuple),
            pickled=st.booleans(),
        ),
        num_processes=st.integers(1, 100),
        mode=st.sampled_from(Mode),
        gpu=st.sampled_from([None, True, False]),
        name=TEXT,
        env=st.dictionaries(NAMES, TEXT, max_size=3),
        timeout_s=st.none() | st.floats(0, 1e6),
        spark=st.builds(SparkSpec, conf=st.dictionaries(NAMES, TEXT, max_size=3)),
    ),
    environ=st.dictionaries(NAMES, TEXT, max_size=5),
    python=TEXT,
    payload=st.none() | st.binary(max_size=100),
    path=st.lists(TEXT, max_size=3).map(tuple),
    bundle=st.none() | st.builds(Bundle, st.builds(Manifest, TEXT, files=FILES), st.binary(max_size=100)),
    inherited=st.builds(
        Inherited,
        umask=st.none() | st.integers(0, 0o777),
        limits=st.dictionaries(st.sampled_from(["NOFILE", "CORE"]), st.integers(-1, 1 << 62), max_size=2),
        cores=st.lists(st.integers(0, 99), max_size=3).map(tuple),
        nice=st.integers(-20, 19),
    ),
    session=st.none(),
)


@pytest.fixture
def ends() -> Iterator[tuple[Conversation, Conversation]]:
    near, far = map(Conversation, socket.socketpair())
    near.sock.settimeout(20)
    far.sock.settimeout(20)
    yield near, far
    near.close()
    far.close()


@given(request_=REQUESTS)
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_request_arrives_as_it_was(ends: tuple[Conversation, Conversation], request_: Request) -> None:
    packed = pack_request(request_)
    ends[0].send({**packed.document, "op": "submit"}, *packed.blobs)

    assert request_ == unpack_request(ends[1].receive())


def test_environments_may_hold_what_is_no_text(ends: tuple[Conversation, Conversation]) -> None:
    request = Request(
        JobSpec(Target(TargetKind.SCRIPT, "t.py")),
        environ={"A": b"\xff\xe9".decode("utf-8", "surrogateescape")},
    )
    packed = pack_request(request)
    ends[0].send(packed.document, *packed.blobs)

    assert request.environ == unpack_request(ends[1].receive()).environ


def test_much_arrives_whole(ends: tuple[Conversation, Conversation]) -> None:
    blobs = (b"", b"\n" * 3_000_000, bytes(range(256)) * 20_000)

    def say() -> None:
        for number in (1, 2):
            ends[0].send({"n": number}, *blobs)

    sender = threading.Thread(target=say)
    sender.start()
    assert [Message({"n": n}, blobs) for n in (1, 2)] == [ends[1].receive() for _ in range(2)]
    sender.join(60)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"{}",
        b'{"blobs": [10]}\nshort',
        b"7\n",
        b"[1]\n",
        b"{\n",
        b'{"blobs": [1e999]}\n',
        b"[" * 99_999 + b"\n",
    ],
)
def test_what_nobody_says_is_a_lost_connection(ends: tuple[Conversation, Conversation], said: bytes) -> None:
    def say() -> None:
        ends[0].sock.sendall(said)
        ends[0].sock.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=say)
    sender.start()
    with pytest.raises(ConnectionError):
        ends[1].receive()
    sender.join(60)


def test_a_silent_end_is_a_lost_one_where_there_is_a_limit(ends: tuple[Conversation, Conversation]) -> None:
    ends[1].sock.settimeout(0.05)
    with pytest.raises(ConnectionError, match="sends nothing") as caught:
        ends[1].receive()
    assert isinstance(caught.value.__cause__, TimeoutError)


def test_nobody_at_the_other_end(ends: tuple[Conversation, Conversation]) -> None:
    ends[1].close()
    with pytest.raises(ConnectionError):
        ends[0].send({"op": "next"})


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"spec": 7},
        {"spec": {}},
        {**pack_request(Request(JobSpec(Target(TargetKind.SCRIPT, "t")))).document, "payload": True},
        {**pack_request(Request(JobSpec(Target(TargetKind.SCRIPT, "t")))).document, "inherited": 1},
        {**pack_request(Request(JobSpec(Target(TargetKind.SCRIPT, "t")))).document, "path": 1},
    ],
    ids=lambda d: json.dumps(d)[:40],
)
def test_what_is_no_request_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(InternalError, match="makes no sense"):
        unpack_request(Message(document))


KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, LauncherError) and kind is not RankFailed
]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_arrives_as_it_was(kind: type[LauncherError]) -> None:
    error = kind("it broke")
    error.hint = "mend it"
    found = error_from(json.loads(json.dumps(error_document(error))))

    assert (kind, "it broke", "mend it", error.exit_code) == (
        type(found),
        found.message,
        found.hint,
        found.exit_code,
    )


@pytest.mark.parametrize("name", ["annotations", "Any", "no such", "", None])
def test_an_error_of_a_newer_version_is_an_error(name: object) -> None:
    assert isinstance(error_from({"error": name, "message": "m"}), InternalError)
