"""What an unanswered question to a Spark session means: refused, ended, or a lost connection."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.backends.spark.guarded import ask, has_ended, setting, settings_of


class Py4JError(Exception):
    """py4j's, by name: nothing here needs py4j."""


class Py4JNetworkError(Py4JError):
    """As above."""


REFUSAL = Py4JError("Trace:\npy4j.security.Py4JSecurityException: Method public X is not whitelisted")


def raising(error: Exception) -> Any:
    def question() -> Any:
        raise error

    return question


@pytest.mark.parametrize(
    "error",
    [
        REFUSAL,
        Py4JError("a constructor does not exist"),
        AttributeError("'JavaPackage' object has no attribute 'x'"),
        TypeError("'JavaPackage' object is not callable"),
        NotImplementedError("[NOT_IMPLEMENTED] rdd() is not implemented"),
        RuntimeError("[JVM_ATTRIBUTE_NOT_SUPPORTED] no `_jsc`"),
        ValueError("py4j.security.Py4JSecurityException, as pyspark wraps it"),
    ],
)
def test_what_is_refused_is_unknown(error: Exception) -> None:
    assert None is ask(raising(error))


@pytest.mark.parametrize(
    "error", [Py4JNetworkError("gone"), ConnectionRefusedError(111, "no JVM"), ValueError("ours")]
)
def test_a_lost_connection_and_a_defect_are_no_refusals(error: Exception) -> None:
    with pytest.raises(type(error)):
        ask(raising(error))


def test_answers_of_any_value_are_known() -> None:
    assert 0 == ask(lambda: 0)
    assert "" == ask(lambda: "")


class Context:
    """A context whose every answer is the same error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    @property
    def defaultParallelism(self) -> int:  # noqa: N802  # pyspark's name
        raise self._error

    def getConf(self) -> Any:  # noqa: N802  # as above
        raise self._error


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        (REFUSAL, False),
        (AttributeError("'NoneType' object has no attribute 'sc'"), True),
        (Py4JError("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext"), True),
        (ConnectionRefusedError(111, "refused"), True),
    ],
)
def test_a_context_has_ended_unless_it_refuses_to_say_so(error: Exception, ended: bool) -> None:
    assert ended is has_ended(Context(error))


class Session:
    """A session whose settings can be read."""

    class conf:  # noqa: N801  # pyspark's name
        @staticmethod
        def get(key: str, default: str) -> str:
            return {"spark.task.cpus": "2"}.get(key, default)


@pytest.mark.parametrize(
    ("session", "key", "value"),
    [(Session(), "spark.task.cpus", "2"), (Session(), "spark.x", ""), (None, "spark.task.cpus", None)],
)
def test_a_setting_is_asked_of_the_session_where_the_context_refuses(
    session: Any, key: str, value: str | None
) -> None:
    assert value == setting(settings_of(Context(REFUSAL)), session, key)
