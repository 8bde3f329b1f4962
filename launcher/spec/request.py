"""A request to launch: the job, its secrets, and the process context of its caller.

The caller's environment may hold secrets and a pickled callable may be large, so both are kept beside the
spec, never inside it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import SpecError
from .files.bundle import Bundle
from .inherited import Inherited
from .job import JobSpec, SparkSpec


@dataclass(frozen=True, slots=True)
class Data:
    """A DataFrame that the ranks of a run share: each Spark task gets a partition, and deals it to its ranks.

    Attributes:
        dataframe: the DataFrame, of the session that the run uses.
        settings: what ranks must know of it, as JSON.
        spooled_first: whether ranks begin only when their partition was read, and find it as those of
            pyspark's TorchDistributor do.
        repartition: whether its partitions may be changed to be as many as there are tasks; None for only if
            their number differs.
    """

    dataframe: Any = field(repr=False, compare=False)
    settings: str = "{}"
    spooled_first: bool = False
    repartition: bool | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """All that is needed to start a run.

    Attributes:
        spec: what to run; its `workdir` is absolute.
        environ: the caller's environment, which local ranks inherit.
        python: the caller's interpreter, if ranks inherit it; empty for their hosts' own.
        payload: the pickled callable or arguments, if `spec.target.pickled`.
        path: the caller's `sys.path`, if the target is a function; a script does not need it.
        bundle: the run's files, for hosts that have none of the caller's.
        inherited: the umask, limits, cores and niceness of the caller, which local ranks adopt.
        trackers_python: the caller's interpreter, in which the packages of trackers are looked for.
        session: the caller's own Spark session, if the run is to use it.
        data: the data that its ranks share; None for none.
        gpus: the addresses of the GPUs that Spark has granted to the caller's process; None for all that this
            machine has.

    Raises:
        SpecError: an address of Spark has not the form of its kind.
    """

    spec: JobSpec
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)
    python: str = sys.executable
    payload: bytes | None = field(default=None, repr=False)
    path: tuple[str, ...] = ()
    bundle: Bundle | None = field(default=None, repr=False)
    inherited: Inherited = field(default_factory=Inherited.here)
    trackers_python: str = sys.executable
    session: Any = field(default=None, repr=False, compare=False)
    data: Data | None = None
    gpus: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        require_addresses(self.spec.spark)

    @property
    def interpreter(self) -> str:
        """The ranks' interpreter; empty for their hosts' own."""
        return self.spec.python or self.python


def require_addresses(spark: SparkSpec) -> None:
    """Refuse an address of Spark that has not the form of its kind.

    Records are not checked: a run that was refused for its address can still be read.

    Raises:
        SpecError: it has another form; the hint says what to write.
    """
    if spark.master or spark.remote or spark.conf:
        from .spark_address import check_addresses  # most runs have no address

        check_addresses(spark)


def require_workdir(spec: JobSpec) -> None:
    """Refuse a working directory that does not exist.

    Raises:
        SpecError: it does not exist, or is no folder.
    """
    if not os.path.isdir(spec.workdir):
        is_what = "is not a folder" if os.path.lexists(spec.workdir) else "does not exist"
        raise SpecError(f"the working directory {spec.workdir} {is_what}")


def require_python(request: Request) -> None:
    """Refuse a chosen interpreter that this machine does not have, if the ranks run here.

    Raises:
        SpecError: there is no such program.
    """
    spec = request.spec
    if not spec.python or not spec.mode.traits.one_host:
        return
    path = {**request.environ, **spec.env}.get("PATH", os.defpath)
    if shutil.which(spec.python, path=path) is None:
        where = "" if "/" in spec.python else " on PATH"
        raise SpecError(f"--python: there is no program {spec.python}{where}", hint="name an interpreter")


def config_text(spec: JobSpec) -> str:
    """The text of DeepSpeed's configuration; empty without one.

    Raises:
        SpecError: its file cannot be read, or it is no JSON object.
    """
    config = spec.deepspeed_config
    if not config:
        return ""
    inline = config.lstrip().startswith("{")
    name = "the configuration of DeepSpeed" if inline else config
    try:
        text = config if inline else Path(config).read_text()
        value = json.loads(text)
    except OSError as error:
        raise SpecError(f"--deepspeed-config: {name} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise SpecError(f"--deepspeed-config: {name} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise SpecError(f"--deepspeed-config: {name} holds no JSON object")
    return text


def require_sent_files(spec: JobSpec, *names: str) -> None:
    """Refuse ``--py-files`` and ``--files`` that do not exist. Their kind is checked when they are packed.

    `names` are the options to check; by default both.

    Raises:
        SpecError: a path does not exist.
    """
    for name in names or ("py_files", "files"):
        for text in getattr(spec, name):
            if not os.path.exists(path := sent_path(spec, text)):
                flag = f"--{name.replace('_', '-')}"
                raise SpecError(f"{flag}: there is no {path}", hint="give the option once for each file")


def sent_path(spec: JobSpec, text: str) -> str:
    """The absolute path of a file to be sent; a relative one starts in the working directory."""
    return os.path.abspath(os.path.join(spec.workdir, os.path.expanduser(text)))
