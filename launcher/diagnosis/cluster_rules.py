"""Recognise failures that only a cluster has: its hosts differ from one another, or from this machine. Pure.

That hosts differ is no cause by itself. It is named only for a failure that it explains.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import ModuleSpec

from ..errors import LauncherError
from ..placement.refusals import VersionsDiffer
from ..state.outcome_rules import brief
from ..state.run_state import RunState
from .failure import Certainty, Finding, FirstFailure, Recognised, weakest
from .sites import HERE, Site, differs, told

CLOCK_LIMIT_S = 1.0
_ONE_ENVIRONMENT = "one environment for all hosts: --python PATH on a disk that they share, or spark.archives"
_MODULE = re.compile(r"No module named '([\w.]{1,200})'")


# --- versions


@dataclass(frozen=True, slots=True)
class _Named:
    """A message that cannot come about among equal versions; `text` says of whom, after the rank's name."""

    pattern: re.Pattern[str]
    kind: str
    text: Callable[[re.Match[str]], str]


# From the sources of CPython 3.8 to 3.14, of NCCL 2.27, and our own (`agent/rank_main`).
_NAMED = (
    _Named(
        re.compile(r"the target was pickled by Python ([\d.]+), and this rank runs Python ([\d.]+)"),
        "RuntimeError",
        lambda found: f"runs Python {found[2]}, and its function was pickled by Python {found[1]}",
    ),
    _Named(
        re.compile(r"unsupported pickle protocol: (\d+)"),
        "ValueError",
        lambda found: f"was given a pickle of protocol {found[1]}, which needs a newer Python than its own",
    ),
    _Named(
        re.compile(r"bad magic number in '([\w.]+)'"),
        "ImportError",
        lambda found: f"was given {found[1]} as compiled by another version of Python than it runs",
    ),
    _Named(
        re.compile(
            r"[\s\S]{0,4000}?Mismatched NCCL version detected ?: "
            r"rank (\d+) version (\d+) rank (\d+) version (\d+)"
        ),
        "torch.distributed.DistBackendError",
        lambda found: "cannot meet the others: NCCL is "
        f"{_nccl(found[2])} in rank {found[1]} and {_nccl(found[4])} in rank {found[3]}",
    ),
)  # fmt: skip

_OF_MODULE = (
    ("AttributeError", re.compile(r"(?:partially initialized )?module '([\w.]+)' has no attribute '\w+'")),
    ("ImportError", re.compile(r"cannot import name '\w+' from '([\w.]+)'")),
    ("ModuleNotFoundError", _MODULE),
    ("AttributeError", re.compile(r"Can't get attribute '[\w.<>]+' on <module '([\w.]+)'")),
)
_OF_PYTHON = (
    (
        "TypeError",
        re.compile(r"code(?:\(\))? (?:argument \d+ must be|expected at (?:most|least) \d+ arg|takes at)"),
    ),
    ("SystemError", re.compile(r"unknown opcode")),
)


def version_skew(failure: FirstFailure) -> Finding | None:
    """Two hosts, or a host and this machine, have different versions, and the failure shows that."""
    for named in _NAMED:
        if found := failure.begins(named.pattern, named.kind):
            return _skew(failure, f"{failure.name} {named.text(found.match)}", found, Certainty.CERTAIN)
    return _lacking_part(failure) or _unlike(failure)


def _unlike(failure: FirstFailure) -> Finding | None:
    """The skew behind an error that does not name it, but which it explains."""
    part, found = _part_of(failure)
    own = failure.site
    others = [site for site in failure.sites if site.name != failure.rank.host]
    if (
        found is None
        or own is None
        or not differs(own, others, part)
        or _fails_alike_elsewhere(failure, part)
    ):
        return None
    other = next(site for site in others if differs(own, [site], part))
    those = f"{getattr(own, part)} on {own.name} and {getattr(other, part)} on {other.name}"
    text = f"{failure.name} fails where versions differ: {dict(_PARTS)[part]} is {those}"
    return _skew(failure, text, found, Certainty.LIKELY)


def _part_of(failure: FirstFailure) -> tuple[str, Recognised | None]:
    """Which versions the failure may be about, ``torch`` or ``python``, and the error that shows it."""
    for kind, pattern in _OF_PYTHON:
        if found := failure.begins(pattern, kind):
            return "python", found
    for kind, pattern in _OF_MODULE:
        if (found := failure.begins(pattern, kind)) and (part := _part_of_module(kind, found.match[1])):
            return part, found
    return "", None


def _part_of_module(kind: str, module: str) -> str:
    top = module.partition(".")[0]
    if top == "torch":
        return "" if kind == "ModuleNotFoundError" and module == top else "torch"
    return "python" if top in sys.stdlib_module_names and top != "__main__" else ""


def _lacking_part(failure: FirstFailure) -> Finding | None:
    """An installed package that lacks a part there which it has here; its parent could be imported there.

    Another package of that name, or a folder that hides it, may be there too. Several distributions can put
    parts into one namespace package, as into ``google``: one that is not installed is no other version.
    """
    found = _lacks_module(failure)
    if found is None or "." not in found.match[1]:
        return None
    name = found.match[1]
    place, parent = _place(failure.module_here(name)), failure.module_here(name.rpartition(".")[0])
    if not _is_installed(place) or parent is None or parent.origin is None:
        return None
    top = name.partition(".")[0]
    text = f"{top} on {failure.rank.host} is another version than on {HERE}: it has no {name}"
    own, here = failure.site, [site for site in failure.sites if site.name == HERE]
    known = top == "torch" and own is not None and differs(own, here, "torch")
    most = Certainty.CERTAIN if known else Certainty.LIKELY
    return _skew(failure, text, found, most, f"here it is {place}")


def _place(module: ModuleSpec | None) -> str:
    """Its file, or a package's folder; empty for none."""
    return "" if module is None else next(iter(module.submodule_search_locations or ()), module.origin or "")


def _lacks_module(failure: FirstFailure) -> Recognised | None:
    """An import that found no module; not one of a file that hides the package in which it was looked for."""
    found = failure.begins(_MODULE, "ModuleNotFoundError")
    return None if found is None or "is not a package" in found.error.message else found


def _fails_alike_elsewhere(failure: FirstFailure, part: str) -> bool:
    """Whether a rank with another version has the same error: then the version does not explain it."""
    own, raised = failure.site, failure.rank.raised
    sites = {site.name: site for site in failure.sites}
    others = (rank for rank in failure.gang if rank.raised is not None and rank.host in sites)
    return own is not None and any(
        raised is not None
        and rank.raised is not None
        and (rank.raised.kind, rank.raised.message) == (raised.kind, raised.message)
        and differs(sites[rank.host], [own], part)
        for rank in others
    )


def _skew(failure: FirstFailure, text: str, found: Recognised, most: Certainty, *more: str) -> Finding:
    versions = (f"{name} is {said}" for part, name in _PARTS if (said := told(failure.sites, part)))
    evidence = (f"{found.error.kind}: {brief(found.error.message)}", *more, *versions)
    return Finding("version-skew", text, weakest(found.certainty, most), evidence, (_ONE_ENVIRONMENT, *_SAME))


_PARTS = (("python", "Python"), ("torch", "torch"), ("cuda", "torch's CUDA"))
_SAME = ("install the same versions on every host, and where the run is started: pip install torch==VERSION",)


def _nccl(code: str) -> str:
    """NCCL's version, such as 2.27.5 for 22705."""
    number = int(code)
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}" if number >= 10000 else code


# --- modules


def module_missing_on_executors(failure: FirstFailure) -> Finding | None:
    """A rank could not import what this machine has."""
    found = _lacks_module(failure)
    if found is None or not (place := _place(failure.module_here(found.match[1]))):
        return None
    return _missing(failure, found, place)


def _missing(failure: FirstFailure, found: Recognised, place: str) -> Finding:
    name = found.match[1]
    top = name.partition(".")[0]
    python = failure.site.python if failure.site else ""
    evidence = [f"{HERE} has it: {place}"]
    if python:
        evidence.append(f"ranks on {failure.rank.host} run the executors' Python, {python}")
    if _is_installed(place):
        shared = (found_here := failure.module_here(top)) is not None and found_here.origin is None
        what = f"the package that has {name}" if shared else top
        remedy = (f"install {what} in the Python that executors run", _ONE_ENVIRONMENT)
    else:
        remedy = (f"--py-files {place} has it travel with the run", f"install {top} where executors run")
    text = f"{failure.rank.host} has no module {name}, which {failure.name} imports; {HERE} has it"
    return Finding("module-missing-on-executors", text, found.certainty, tuple(evidence), remedy)


def _is_installed(place: str) -> bool:
    return "site-packages" in place or "dist-packages" in place


# --- clocks

_TOO_EARLY = re.compile(
    r"certificate is not yet valid|"
    r"(?:token|signature|assertion|jwt)\b.{0,40}\bnot (?:yet|currently) (?:valid|current)|"
    r"used too early|\biat\b.{0,40}\bfuture",
    re.IGNORECASE,
)
_TOO_LATE = re.compile(
    r"certificate has expired|(?:token|signature|request)\b.{0,40}\b(?:has |is )?expired|ExpiredToken",
    re.IGNORECASE,
)
_SKEWED = re.compile(
    r"RequestTimeTooSkewed|clock skew too great|request time and the (?:current|server) time is too large",
    re.IGNORECASE,
)
_CLOCK_REMEDY = ("set the wrong clock, and keep it right: chronyc makestep, or timedatectl set-ntp true",)


def clock_skew(failure: FirstFailure) -> Finding | None:
    """Hosts' clocks differ by more than a second, and the failure is about a time that they compare."""
    for error in failure.errors:
        if not error.by_user and (wrong := _wrong_clock(failure, error.message)) is not None:
            site, other = wrong
            apart = site.offset - other.offset
            side = "ahead of" if apart > 0 else "behind"
            text = f"the clock of {site.name} is {abs(apart):.1f} s {side} that of {other.name}"
            evidence = (f"{error.kind}: {brief(error.message)}", _clocks_told(failure))
            return Finding("clock-skew", text, Certainty.LIKELY, evidence, _CLOCK_REMEDY)
    return None


def _wrong_clock(failure: FirstFailure, message: str) -> tuple[Site, Site] | None:
    """The rank's host and another one whose clock differs in the way that the message tells.

    That is the gang's host whose clock differs most, else this machine.
    """
    own = failure.site
    if own is None:
        return None
    others = [site for site in failure.sites if site.name != own.name]
    early, late = bool(_TOO_EARLY.search(message)), bool(_TOO_LATE.search(message))
    if _SKEWED.search(message):
        early = late = True
    ahead = [site for site in others if early and site.offset - own.offset > _limit(site, own)]
    behind = [site for site in others if late and own.offset - site.offset > _limit(site, own)]
    found = sorted((*ahead, *behind), key=lambda site: (site.name == HERE, -abs(site.offset - own.offset)))
    other = next(iter(found), None)
    return None if other is None else (own, other)


def _limit(one: Site, other: Site) -> float:
    return CLOCK_LIMIT_S + one.error + other.error


def _clocks_told(failure: FirstFailure) -> str:
    clocks = (f"{site.name} {site.offset:+.3f} s" for site in failure.sites if site.name != HERE)
    return f"clocks beside that of {HERE}: {', '.join(clocks)}"


# --- gangs that could not be placed


def refused_python(state: RunState, refusal: LauncherError) -> Finding | None:
    """Hosts have another Python than the driver or the caller, and so no rank was started."""
    if not isinstance(refusal, VersionsDiffer):
        return None
    agents = sorted({f"{host.host}: {host.python}" for host in state.hosts.values() if host.python})
    remedy = (
        "set PYSPARK_PYTHON, or spark.pyspark.python, to the same version on all hosts",
        _ONE_ENVIRONMENT,
    )
    return Finding("version-skew", refusal.message, Certainty.CERTAIN, tuple(agents), remedy)
