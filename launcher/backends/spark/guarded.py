"""Questions to a Spark session that may refuse them, as managed Spark does.

Databricks in shared access mode and the like let through only those calls to Spark's JVM that are on a list,
and raise a ``Py4JSecurityException`` for others; some give a Connect session only. What a session refuses is
unknown: never zero, and no error of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from .failures import text_of

T = TypeVar("T")

_REFUSALS = ("Py4JSecurityException", "NOT_SUPPORTED", "NOT_IMPLEMENTED")


def ask(question: Callable[[], T]) -> T | None:
    """The answer; None, which means unknown, if the session refuses the question or has no such thing.

    Raises:
        Exception: the connection to Spark's JVM is lost.
    """
    try:
        return question()
    except (AttributeError, TypeError, NotImplementedError):
        return None
    except Exception as error:
        if _of_gateway(error) or refuses(error):
            return None
        raise


def refuses(error: Exception) -> bool:
    """Whether a session says by an exception that it does not let such a call through."""
    text = text_of(error)
    return any(word in text for word in _REFUSALS)


def has_ended(context: Any) -> bool:
    """Whether a classic context is stopped or its JVM gone; False if it refuses to say so."""
    try:
        _ = context.defaultParallelism  # it is what Spark itself answers only as long as it is not stopped
    except Exception as error:  # noqa: BLE001  # a JVM that is gone fails in many ways
        return not refuses(error)
    return False


def settings_of(context: Any) -> Any:
    """The settings of a classic context, which do not change any more; None if it refuses to tell them."""
    return ask(lambda: context.getConf())  # it copies them one by one, which takes 20 ms


def setting(settings: Any, session: Any, key: str) -> str | None:
    """A setting of a classic session; empty if it is not set, None if the session refuses to tell.

    Args:
        settings: as `settings_of` its context.
        session: the SparkSession, or None where there is only a context.
        key: the setting's name.
    """
    ways: Iterable[Callable[[], Any]] = (
        lambda: settings.get(key, ""),
        lambda: session.conf.get(key, ""),
    )
    answers = (ask(way) for way in ways)
    return next((str(answer) for answer in answers if answer is not None), None)


def _of_gateway(error: Exception) -> bool:
    """Whether it is py4j's own, of a call that Java did not carry out, over a connection that works."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return "Py4JError" in names and "Py4JNetworkError" not in names
