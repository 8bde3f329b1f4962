"""A run that is recorded, as a request to run it again, with what a person wants otherwise."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher.errors import SpecError
from launcher.redaction import REDACTED, looks_secret, without_token
from launcher.request import Request
from launcher.runs import paths
from launcher.runs.reader import read_spec
from launcher.spec import JobSpec, Mode, SparkSpec, TargetKind, world_size

_FIELDS = {
    "gpu": "gpu",
    "gpus_per_rank": "gpus_per_rank",
    "gpus_per_task": "gpus_per_task",
    "name": "name",
    "max_restarts": "max_restarts",
    "start_timeout": "start_timeout_s",
    "timeout": "timeout_s",
    "no_progress_timeout": "no_progress_timeout_s",
    "grace": "grace_s",
    "sample_interval": "sample_s",
}
_SPARK_FIELDS = {
    "master": "master",
    "remote": "remote",
    "listen": "listen",
    "spool": "spool",
    "lost_after": "lost_after_s",
}
_SPECIAL = frozenset({"num_processes", "mode", "conf", "env", "param", "py_files", "workdir"})
KNOWN = _SPECIAL | _FIELDS.keys() | _SPARK_FIELDS.keys()
"""The options of a launch that may be given anew."""


def request_again(
    folder: Path,
    given: Mapping[str, Any] | None = None,
    args: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
) -> Request:
    """The request that would run a recorded run again.

    Args:
        folder: the run's folder.
        given: the options of a launch that are to be otherwise, by their names.
        args: other arguments, if any.
        environ: where values that were not written down are taken from; ours by default.

    Raises:
        SpecError: it cannot be run again so: a secret or the target is missing, or an option does not fit.
        RecordError: the folder holds no readable run.
    """
    asked = changed(_as_typed(read_spec(folder)), given or {}, args)
    spec = _checked(restored(asked, os.environ if environ is None else environ, folder.name))
    own = spec.target.kind is TargetKind.CALLABLE or spec.target.pickled
    path = (*_import_root(spec), spec.workdir) if own else ()
    return Request(spec, payload=_payload(folder) if own else None, path=path)


def changed(spec: JobSpec, given: Mapping[str, Any], args: Sequence[str]) -> JobSpec:
    """A spec with some of its values given anew; environment, settings and parameters are added to.

    Raises:
        SpecError: a value does not fit the others.
    """
    mode = _mode(spec, given)
    plain = {field: given[name] for name, field in _FIELDS.items() if name in given}
    if "num_processes" in given:
        plain["min_processes"], plain["num_processes"] = world_size(given["num_processes"])
    if "workdir" in given:
        plain["workdir"] = str(given["workdir"].absolute())
    if "py_files" in given:
        plain["py_files"] = tuple(str(Path(p).absolute()) for p in given["py_files"])
    env = {**spec.env, **given.get("env", {})}
    fitting = _without_spark(spec) if mode is Mode.LOCAL else replace(spec, spark=_spark(spec, mode, given))
    return _with_arguments(replace(fitting, mode=mode, env=env, **plain), given.get("param", {}), args)


def _mode(spec: JobSpec, given: Mapping[str, Any]) -> Mode:
    if "mode" in given:
        return Mode(given["mode"])
    return Mode.CONNECT if given.get("remote") else Mode.CLUSTER if given.get("master") else spec.mode


def _without_spark(spec: JobSpec) -> JobSpec:
    return replace(spec, spark=SparkSpec(), py_files=(), gpus_per_task=None)


def _spark(spec: JobSpec, mode: Mode, given: Mapping[str, Any]) -> SparkSpec:
    """Which Spark; an address of the other kind is not meant any more."""
    other = {"remote": ""} if mode is Mode.CLUSTER else {"master": ""}
    fields = {field: given[name] for name, field in _SPARK_FIELDS.items() if name in given}
    return replace(spec.spark, conf={**spec.spark.conf, **given.get("conf", {})}, **{**other, **fields})


def _with_arguments(spec: JobSpec, params: Mapping[str, str], args: Sequence[str]) -> JobSpec:
    target = spec.target
    if not (params or args):
        return spec
    if target.kind is TargetKind.CALLABLE or target.pickled:
        raise SpecError(f"the arguments of {target.label} are a pickle: they cannot be given anew")
    kwargs = {**dict(target.kwargs), **params}
    return replace(
        spec, target=replace(target, kwargs=tuple(kwargs.items()), args=tuple(args) or target.args)
    )


def restored(spec: JobSpec, environ: Mapping[str, str], run: str) -> JobSpec:
    """A spec with the secrets that were not written down, as far as the environment has them.

    Raises:
        SpecError: it lacks some; all of them are named.
    """
    missing = []
    env = dict(spec.env)
    for name in _redacted(env):
        env[name] = environ.get(name, REDACTED)
        missing += [f"--env {name}=…"] if name not in environ else []
    missing += [f"--conf {name}=…" for name in _redacted(spec.spark.conf)]
    remote = spec.spark.remote
    if f"={REDACTED}" in remote:
        remote = environ.get("SPARK_REMOTE", "")
        missing += ["--remote sc://…"] if without_token(remote) != spec.spark.remote else []
    if missing:
        raise SpecError(
            f"run {run} was given secrets that were not written down: give {', '.join(missing)}",
            hint="those of the environment may also be set here",
        )
    return replace(spec, env=env, spark=replace(spec.spark, remote=remote))


def _redacted(values: Mapping[str, str]) -> list[str]:
    return [name for name, value in values.items() if value == REDACTED and looks_secret(name)]


def _as_typed(spec: JobSpec) -> JobSpec:
    """The spec with its arguments as a person types them, which is how those given anew come."""
    from launcher.target import typed_arguments

    if spec.target.pickled:
        return spec
    args, kwargs = typed_arguments(spec.target, Path(spec.workdir))
    return replace(spec, target=replace(spec.target, args=args, kwargs=tuple(kwargs.items())))


def _checked(spec: JobSpec) -> JobSpec:
    """The spec with its target found again.

    Raises:
        SpecError: it is not there any more, or takes other arguments now.
    """
    from launcher.target import resolve

    target = spec.target
    if target.kind is TargetKind.CALLABLE or target.pickled:
        return spec
    found = resolve(target.label, params=dict(target.kwargs), args=target.args, workdir=Path(spec.workdir))
    return replace(spec, target=found)


def _payload(folder: Path) -> bytes:
    try:
        return (folder / paths.TARGET).read_bytes()
    except OSError as error:
        raise SpecError(
            f"run {folder.name} has no pickle of what it ran: {error.strerror}", hint="start it from Python"
        ) from error


def _import_root(spec: JobSpec) -> tuple[str, ...]:
    """The folder from which the target's own module is imported."""
    if not spec.target.is_file:
        return ()
    folder = Path(spec.target.source).parent
    while (folder / "__init__.py").exists() and folder != folder.parent:
        folder = folder.parent
    return (str(folder),)
