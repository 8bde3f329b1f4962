"""`sparkdl.HorovodRunner` (sparkdl 2.3, as Databricks documents it) as runs of rankdeck.

The open package runs the function in the caller's own process; what its documentation promises is here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..distributor import Distributor, attend
from ..job import Job
from .originals import CallersSpark, originals_errors, whole_number
from .wrapping import WithNames

if TYPE_CHECKING:
    from ..display.output import Output, RankMessages, Show

_ALL, _CALLBACK_ONLY = "all", "log_callback_only"
# For slots, the original waits as long as it takes.
_SLOTS_LIMIT_S = 86_400.0


class HorovodRunner:
    """Distributed training with Horovod from a Spark driver.

    Args:
        np: the number of ranks. Below 0, so many ranks run on this machine without Spark, and all their
            output is shown. Above 0, each takes a slot of the active Spark session; the run waits for slots
            that are in use.
        driver_log_verbosity: what is shown of ranks on a cluster: ``"all"`` lines that they print, or
            ``"log_callback_only"``, what they send by `log_to_driver`.

    Attributes:
        num_processor: `np`.

    Raises:
        ValueError: an argument is not allowed.
    """

    def __init__(self, *, np: int, driver_log_verbosity: str = _CALLBACK_ONLY) -> None:
        if driver_log_verbosity not in (_ALL, _CALLBACK_ONLY):
            known = f'"{_ALL}" or "{_CALLBACK_ONLY}"'
            raise ValueError(f"driver_log_verbosity must be {known}, not {driver_log_verbosity!r:.80}")
        self.num_processor = _ranks(np)
        self._verbosity = driver_log_verbosity

    def run(self, main: Callable[..., Any], **kwargs: Any) -> Any:
        """Call ``main(**kwargs)`` in every rank, and return rank 0's value.

        Inside ranks, `sparkdl` has the names of this package, installed or not.

        Raises:
            ValueError: the arguments do not fit the function, or it cannot be pickled.
            RuntimeError: there is no active Spark session, it has fewer slots than ranks, or training failed;
                the text then has the user's traceback, and the cause is `RankFailed`.
        """
        with originals_errors():
            job = self._distributor().start(WithNames(main), **kwargs)
            return attend(job, self._shown(), Job.result)

    def _distributor(self) -> Distributor:
        if self.num_processor < 0:
            return Distributor(-self.num_processor, "local", framework="horovod")
        spark = CallersSpark.require(type(self).__name__).session
        return Distributor(
            self.num_processor, "cluster", spark=spark, framework="horovod", start_timeout_s=_SLOTS_LIMIT_S
        )

    def _shown(self) -> Output | Show:
        from ..display.output import Output  # executors have none of it

        is_all = self.num_processor < 0 or self._verbosity == _ALL
        return Output.ALL if is_all else _messages


def _messages(job: Job) -> RankMessages:
    from ..display.output import RankMessages  # executors have none of it
    from ..display.streams import CallersStreams

    return RankMessages(job, CallersStreams())


def _ranks(np: Any) -> int:
    """The number of ranks, below 0 for this machine.

    Raises:
        ValueError: it is no whole number, or 0.
    """
    number = whole_number(np, "np")
    if not number:
        known = "name the number of slots, or -N for N ranks on this machine"
        raise ValueError(f"np=0, all slots of the cluster, is not served: {known}")
    return number
