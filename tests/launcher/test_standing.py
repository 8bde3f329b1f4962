"""What travels with a stage so that it can do without us, and what does not."""

from __future__ import annotations

import pytest

from launcher import events as ev
from launcher.backends import standing
from launcher.backends.standing import Standing, carry_limit, lean, seal, size_of, unseal
from launcher.request import Request
from launcher.spec import JobSpec, Mode, SparkSpec, Target, TargetKind
from launcher.worker.secure import Credentials

SPEC = JobSpec(
    Target(TargetKind.CALLABLE, "/w/x.py", "f", pickled=True),
    num_processes=4,
    mode=Mode.CONNECT,
    env={"A": "1"},
    max_restarts=3,
    spark=SparkSpec(
        remote="sc://host:15002/;token=secret-1",
        conf={"spark.hadoop.fs.s3a.secret.key": "secret-2", "spark.executorEnv.OMP_NUM_THREADS": "4"},
        spool="/shared",
        lost_after_s=7.0,
    ),
)
STANDING = Standing(
    run="run-1",
    tasks=4,
    credentials=Credentials("certificate", "key", "peer"),
    spec=lean(SPEC),
    path=("/a", "/b"),
    user="ada",
    age_s=3.5,
    restarts=(ev.GangRestarted(time=1.0, attempt=1, reason="r", in_place=False),),
    spool="/shared/rankdeck-run-1-1",
    marker="m",
    carry_bytes=7,
)


@pytest.mark.parametrize("payload", [None, b"", b"\n pickled \x00\n"])
@pytest.mark.parametrize("bundle", [None, b"PK\x03\x04\n"])
def test_what_is_sealed_is_what_is_found(payload: bytes | None, bundle: bytes | None) -> None:
    sealed = seal(STANDING, Request(SPEC, payload=payload, bundle=bundle))
    found, request = unseal(sealed)

    assert STANDING == found
    assert (payload, bundle) == (request.payload, request.bundle)
    assert ({"USER": "ada"}, "", ("/a", "/b")) == (request.environ, request.python, request.path)


def test_no_secret_of_ours_goes_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET", "secret-3")
    sealed = seal(STANDING, Request(SPEC))
    assert b"secret-" not in sealed
    assert ("4", 7.0, 3) == (
        STANDING.spec.spark.conf["spark.executorEnv.OMP_NUM_THREADS"],
        STANDING.spec.spark.lost_after_s,
        STANDING.spec.max_restarts,
    )


def test_keys_are_not_printed() -> None:
    assert "key" not in repr(STANDING).replace("KEY", "")


def test_what_is_too_large_stays_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "LIMIT", 10)
    assert b"" == seal(STANDING, Request(SPEC, payload=b"123456", bundle=b"12345"))
    assert b"" != seal(STANDING, Request(SPEC, payload=b"12345", bundle=b"12345"))


@pytest.mark.parametrize("data", [b"", b"{}", b"null\n", b'{"standing": 1, "sizes": []}'])
def test_what_was_not_sealed_is_refused(data: bytes) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        unseal(data)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512m", 512 << 20),
        ("1g", 1 << 30),
        ("2GB", 2 << 30),
        ("7", 7),
        ("10 k", 10 << 10),
        ("0", 0),
        ("x", 0),
    ],
)
def test_sizes_are_read_as_spark_writes_them(text: str, size: int) -> None:
    assert size == size_of(text)


def test_the_smallest_heap_limits_what_comes_home() -> None:
    conf = {
        "spark.driver.memory": "8g",
        "spark.executor.memory": "500m",
        "spark.driver.maxResultSize": "4g",
    }
    assert 100 << 20 == carry_limit(lambda key, default: conf.get(key, default))
    conf["spark.executor.memory"] = "64g"
    assert (8 << 30) // 5 == carry_limit(lambda key, default: conf.get(key, default))
    conf["spark.driver.maxResultSize"] = "10m"
    assert 9 << 20 == carry_limit(lambda key, default: conf.get(key, default))


def test_no_limit_is_no_limit() -> None:
    assert 0 == carry_limit(lambda *_: "0")
