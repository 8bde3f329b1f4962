"""Checks of what is installed: Python, torch, CUDA and NCCL on every host and here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ...placement.versions import by_version, minor, rarest_first, release, spread
from ...state.host_facts import HostFacts, Installed
from ...state.outcome_rules import listed
from .check import Check, failed, passed, unknown, warned
from .facts import CheckedLaunch

_SHOWN = 5


def python(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether hosts have one minor version of Python, which is the caller's."""
    for name, facts in launch.hosts:
        if facts.installed.trouble:
            yield failed("python", f"{name}: {facts.installed.trouble}", "look at --python", [name])
    versions = _versions(launch, lambda own: minor(own.python))
    here = minor(launch.caller.python)
    differing = {version: hosts for version, hosts in versions.items() if version and version != here}
    if not any(versions):
        return
    if differing and launch.spec.target.pickled:
        text = f"the function is pickled by Python {here}, and there is {spread('Python', differing)}"
        remedy = f"set PYSPARK_PYTHON to a Python {here} that every host has, or run a script"
        yield failed("python", text, remedy, _hosts(differing))
    elif differing:
        text = f"there is {spread('Python', differing)}; this process has {here}"
        yield warned("python", text, f"use Python {here} everywhere, or --python", _hosts(differing))
    else:
        yield passed("python", f"Python {here} on all hosts and here")


def torch(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether hosts have one torch, which is the caller's if the caller has one."""
    versions, here = _versions(launch, lambda own: release(own.torch)), release(launch.caller.torch)
    without = versions.pop("", ())
    if not versions:
        if here and launch.hosts:
            yield warned(
                "torch", "torch is installed here, and on no host", "install it there, if ranks need it"
            )
        return
    if len(versions) > 1:
        yield failed(
            "torch", f"hosts differ: {spread('torch', versions)}", "install one version", _rarest(versions)
        )
    elif without:
        text = f"torch is missing on {listed(without, most=_SHOWN)}"
        yield failed("torch", text, "install it there, or --python", without)
    elif here and here not in versions:
        text = f"hosts have {spread('torch', versions)}; this process has {here}"
        yield warned("torch", text, "a function that pickles tensors or modules needs one version", ())
    else:
        yield passed("torch", f"torch {next(iter(versions))} on all hosts" + (" and here" if here else ""))


def cuda(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether hosts' drivers run the CUDA with which their torch was built, and that is one version."""
    if not launch.wants_gpus:
        return
    with_gpus = [(name, facts) for name, facts in launch.hosts if facts.gpus]
    found = [check for name, facts in with_gpus if (check := _driver_check(name, facts))]
    yield from found
    versions = _versions(launch, lambda own: own.cuda if own.torch else "", with_gpus)
    versions.pop("", None)
    if len(versions) > 1:
        remedy = "install torch of one CUDA"
        yield failed("cuda", f"hosts differ: {spread('torch for CUDA', versions)}", remedy, _rarest(versions))
    elif versions and not found:
        drivers = dict.fromkeys(facts.driver for _, facts in with_gpus if facts.driver)
        yield passed("cuda", f"torch for CUDA {next(iter(versions))}, driver {listed(list(drivers))}")


def _driver_check(name: str, facts: HostFacts) -> Check | None:
    """What is wrong with a host's driver or torch; None if nothing is, or it is not known."""
    own, newest = facts.installed, facts.driver_cuda
    if own.torch and not own.cuda:
        text = f"{name} has GPUs, and its torch {own.torch} was built without CUDA"
        return warned("cuda", text, "install a torch with CUDA", [name])
    wanted, runs = _numbers(own.cuda), _numbers(newest)
    if not wanted or not runs or wanted <= runs:
        return None
    text = f"{name}: torch is for CUDA {own.cuda}, and driver {facts.driver} runs CUDA {newest} at most"
    if wanted[0] > runs[0]:
        return failed("cuda", text, "install a newer driver, or a torch for an older CUDA", [name])
    return warned(
        "cuda", text, "kernels that are compiled at run time may fail: a newer driver helps", [name]
    )


def nccl(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether hosts with GPUs have one NCCL."""
    with_gpus = [(name, facts) for name, facts in launch.hosts if facts.gpus]
    if not launch.wants_gpus or not with_gpus:
        return
    versions = _versions(launch, lambda own: own.nccl, with_gpus)
    unsure = versions.pop("", ())
    if len(versions) > 1:
        yield failed(
            "nccl", f"hosts differ: {spread('NCCL', versions)}", "install one version", _rarest(versions)
        )
    elif unsure:
        yield unknown(
            "nccl", f"which NCCL torch has on {listed(unsure, most=_SHOWN)} is not told by a package", unsure
        )
    else:
        yield passed("nccl", f"NCCL {next(iter(versions))} on all hosts")


def _versions(
    launch: CheckedLaunch,
    read: Callable[[Installed], str],
    hosts: Iterable[tuple[str, HostFacts]] | None = None,
) -> dict[str, list[str]]:
    """The hosts of each version, the rarest first, without those whose interpreter could not be asked."""
    asked = launch.hosts if hosts is None else hosts
    own = ((name, facts.installed) for name, facts in asked if facts.installed.python)
    return rarest_first(by_version((name, read(installed)) for name, installed in own))


def _rarest(versions: Mapping[str, list[str]]) -> list[str]:
    """The hosts of the rarest version, which is probably the wrong one."""
    return next(iter(versions.values()))


def _hosts(versions: Mapping[str, list[str]]) -> list[str]:
    return [name for hosts in versions.values() for name in hosts]


def _numbers(version: str) -> tuple[int, ...]:
    """Major and minor number; empty if it is not known."""
    parts = version.split(".")[:2]
    return tuple(map(int, parts)) if parts and all(map(str.isdecimal, parts)) else ()
