"""What the stand-ins of Spark's distributors have in common: the caller's session, GPUs, checks, errors.

Originals raise a ValueError for a wrong argument and a RuntimeError for all that happens later, and so do
these; the RuntimeError's cause is rankdeck's own error, with all that is known.

Ranks load these modules where a function's own module imports a stand-in. What only drivers have is
therefore imported inside functions.
"""

from __future__ import annotations

import contextlib
import logging
import math
import operator
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..agent.gpus import discover
from ..distributor import attend, launch
from ..errors import LauncherError, SpecError
from ..job import Job
from ..spec.request import Request

TASK_GPUS = "spark.task.resource.gpu.amount"
_SSL = "spark.ssl.enabled"


@dataclass(frozen=True, slots=True)
class CallersSpark:
    """The Spark session of whoever calls: a classic one, or a client's of a Connect server."""

    session: Any

    @classmethod
    def find(cls) -> CallersSpark | None:
        """The session that is active here; None without one."""
        from ..backends.spark.session import callers_session

        session = callers_session()
        return None if session is None else cls(session)

    @classmethod
    def require(cls, who: str) -> CallersSpark:
        """The session that is active here.

        Raises:
            RuntimeError: there is none.
        """
        found = cls.find()
        if found is None:
            raise RuntimeError(f"{who} needs an active Spark session: SparkSession.builder.getOrCreate()")
        return found

    @property
    def remote(self) -> bool:
        """Whether it is a client of a Connect server."""
        from ..backends.spark.session import is_connect

        return is_connect(self.session)

    def setting(self, key: str, default: str = "") -> str:
        """A setting of the session as it is now; the default if it is not set."""
        value = self.session.conf.get(key, default)
        return default if value is None else str(value)

    def enabled(self, key: str) -> bool:
        """Whether a setting is true.

        Raises:
            ValueError: it is neither true nor false.
        """
        text = self.setting(key, "false").lower()
        if text not in ("true", "false"):
            raise ValueError(f"{key} must be true or false, not {text!r:.80}")
        return text == "true"

    def task_gpus(self) -> int:
        """The GPUs of one Spark task. Less than one, which lets tasks share one, counts as one.

        Raises:
            RuntimeError: the configuration has none.
        """
        text = self.setting(TASK_GPUS)
        if not text:
            why = f"'{TASK_GPUS}' was unset, so gpu usage is unavailable"
            raise RuntimeError(f"{why}: set it, or train without GPUs by use_gpu=False")
        try:
            amount = float(text)
        except ValueError:
            amount = 0.0
        if not 0 < amount < math.inf:  # nor is NaN
            raise RuntimeError(f"{TASK_GPUS} must be a number above 0, not {text!r:.80}")
        return max(1, int(amount))

    def check_encryption(self, override: str, who: str) -> None:
        """Refuse a session that requires encryption, unless `override` is set: ranks talk without it.

        The channel between engine and agents is encrypted either way.

        Raises:
            RuntimeError: it requires encryption.
        """
        if not self.enabled(_SSL):
            return
        about = f"{_SSL} is true, and what ranks send to each other has no encryption in transit"
        if not self.enabled(override):
            raise RuntimeError(
                f"{about}: set {override} to true in Spark's configuration to use {who} anyway"
            )
        logging.getLogger(who).warning("%s; %s allows it", about, override)


@dataclass(frozen=True, slots=True)
class DriverGpus:
    """The GPUs of the driver: those that Spark has granted to it, else all of this machine.

    Attributes:
        count: how many they are.
        granted: Spark's addresses of them; None if it schedules none here.
        reason: why there are none; else empty.
    """

    count: int
    granted: tuple[str, ...] | None = None
    reason: str = ""


def driver_gpus(spark: CallersSpark | None) -> DriverGpus:
    """Count the driver's GPUs. The driver of a Connect session is the server: none of its GPUs is ours."""
    if spark is not None:
        from ..backends.spark import internals

        granted = internals.driver_gpus(spark.session, remote=spark.remote)
        if granted is not None:
            return DriverGpus(len(granted), None if spark.remote else granted)
    found = discover(os.environ)
    return DriverGpus(len(found.devices), reason=found.reason)


def attended(request: Request) -> Any:
    """Start a run, show it as `Distributor.run` does, and return rank 0's value.

    Raises:
        LauncherError: as `Distributor.run`.
    """
    from ..display.output import Output

    return attend(launch(request), Output.AUTO, Job.result)


def whole_number(value: Any, name: str, *, least: int | None = None) -> int:
    """An argument as a whole number; NumPy's integers are some too.

    Raises:
        ValueError: it is none, or below `least`.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or (least is not None and number < least):
        bound = "" if least is None else f" of {least} or more"
        raise ValueError(f"{name} must be a whole number{bound}, not {value!r:.80}")
    return number


@contextlib.contextmanager
def originals_errors() -> Iterator[None]:
    """Raise what the originals raise.

    Raises:
        ValueError: the request is wrong.
        RuntimeError: for any other error of rankdeck's, which is its cause.
    """
    try:
        yield
    except SpecError:
        raise
    except LauncherError as error:
        raise RuntimeError(str(error)) from error
