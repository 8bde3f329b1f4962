"""A check's result, and the list of all checks. Their ids are stable: scripts read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from ...runs.logs.text import plain_text


class CheckState(StrEnum):
    """What a check has found; `UNKNOWN` where the facts for it are missing."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


CHECKS: Mapping[str, str] = {
    "java": "Java, where this machine needs it",
    "spark.dynamic-allocation": "Spark's dynamic allocation, with which no barrier stage can run",
    "spark.gpu-amount": "the GPUs that Spark gives an executor and a task",
    "slots": "free slots for all ranks, or room on this machine",
    "hosts": "every agent came and has answered",
    "gpus": "GPUs for all ranks",
    "python": "one Python on all hosts and here",
    "torch": "one torch on all hosts and here",
    "cuda": "torch's CUDA against the driver's, and one CUDA on all hosts",
    "nccl": "one NCCL on all hosts",
    "network.engine": "how agents reach the engine",
    "network.hosts": "hosts reach each other, both ways",
    "network.interface": "the interfaces that NCCL and gloo are told to use",
    "clock": "clocks of hosts against this one",
    "memory": "free memory for the ranks of a host",
    "shared-memory": "/dev/shm",
    "limits.files": "the limit of open files",
    "limits.processes": "the limit of processes",
    "limits.locked-memory": "the limit of locked memory, where there is InfiniBand",
    "limits.address-space": "the limit of address space",
    "disk.runs": "room for run folders, here",
    "disk.scratch": "room for temporary files, on all hosts",
    "gpu.processes": "other processes on the GPUs",
    "gpu.memory-errors": "uncorrected errors of the GPUs' memory",
    "gpu.clocks": "GPUs whose clocks are held back",
    "gpu.xid": "Xids in the kernel's log",
    "target": "the target can be sent",
    "target.imports": "what the target imports is installed on all hosts",
    "target.size": "the size of the pickled function",
    "paths": "paths that options name, on all hosts",
    "paths.arguments": "paths in the target's arguments and variables, on all hosts",
    "workdir": "the working folder",
}
"""Every check by its id, in the order in which they are told, with what it is about."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check's finding.

    Attributes:
        id: one of `CHECKS`.
        state: what was found.
        text: the finding, a sentence without its end.
        remedy: what to do; empty if there is nothing to do.
        hosts: the hosts that it is about; empty for this machine, or for all.
    """

    id: str
    state: CheckState
    text: str
    remedy: str = ""
    hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.id not in CHECKS:
            raise ValueError(f"there is no check {self.id!r}")


def passed(check: str, text: str) -> Check:
    """A check that found nothing wrong."""
    return Check(check, CheckState.PASS, text)


def warned(check: str, text: str, remedy: str, hosts: Sequence[str] = ()) -> Check:
    """A check that found what may go wrong."""
    return Check(check, CheckState.WARN, text, remedy, tuple(hosts))


def failed(check: str, text: str, remedy: str, hosts: Sequence[str] = ()) -> Check:
    """A check that found what will go wrong."""
    return Check(check, CheckState.FAIL, text, remedy, tuple(hosts))


def unknown(check: str, text: str, hosts: Sequence[str] = ()) -> Check:
    """A check whose facts are missing; `text` says why."""
    return Check(check, CheckState.UNKNOWN, text, "", tuple(hosts))


ORDER = {check: place for place, check in enumerate(CHECKS)}
_SEVERITY = {state: place for place, state in enumerate(("pass", "unknown", "warn", "fail"))}


@dataclass(frozen=True, slots=True, repr=False)
class CheckReport:
    """What all checks have found, the worst last.

    Attributes:
        checks: the findings.
        seconds: how long that took.
        unplaced: whether the ranks have no place now, so that a run would end with 69 or wait.
    """

    checks: tuple[Check, ...] = ()
    seconds: float = 0.0
    unplaced: bool = False

    @property
    def ok(self) -> bool:
        """Whether no check has failed; warnings, and what is unknown, are no failures."""
        return not self.having(CheckState.FAIL)

    @property
    def exit_code(self) -> int:
        """0 if no check has failed, 69 if the ranks cannot be placed, else 1."""
        return 0 if self.ok else 69 if self.unplaced else 1

    def having(self, state: CheckState) -> tuple[Check, ...]:
        """The findings of one state."""
        return tuple(each for each in self.checks if each.state == state)

    def __getitem__(self, check: str) -> Check:
        """The finding of a check that was made, by its id."""
        try:
            return next(each for each in self.checks if each.id == check)
        except StopIteration:
            raise KeyError(check) from None

    @property
    def summary(self) -> str:
        """All in one line: ``12 checks pass · 1 warning: /dev/shm has 64 MiB``."""
        parts = [f"{counted_checks(len(self.having(CheckState.PASS)))}"]
        for state, noun in (
            (CheckState.UNKNOWN, "unknown"),
            (CheckState.WARN, "warning"),
            (CheckState.FAIL, "failure"),
        ):
            if found := self.having(state):
                plural = "s" * (len(found) != 1 and noun != "unknown")
                first = f": {found[0].text}" if state != CheckState.UNKNOWN else ""
                parts.append(f"{len(found)} {noun}{plural}{first}")
        return " · ".join(parts)

    def __repr__(self) -> str:
        """A line a check, with its remedy below, and the summary, for any terminal."""
        return plain_text("\n".join([*self.lines(), self.summary]))

    def lines(self) -> list[str]:
        """A line a check, with its remedy indented below; what is unknown for the same reason is one line."""
        same: dict[str, list[Check]] = {}
        for each in self.having(CheckState.UNKNOWN):
            same.setdefault(each.text, []).append(each)
        width = max((len(each.id) for each in self.checks), default=0)
        lines = []
        for each in self.checks:
            alike = same.get(each.text, [each])
            if alike[0] is each or each.state != CheckState.UNKNOWN:
                lines += lines_of(each, width)
            if alike[0] is each and len(alike) > 1:
                lines.append(f"{'':<8}{'':<{width}} so are {', '.join(c.id for c in alike[1:])}")
        return lines

    def document(self) -> dict[str, Any]:
        """The same as a JSON object."""
        checks = [
            {**asdict(each), "state": each.state.value, "hosts": list(each.hosts)} for each in self.checks
        ]
        return {"ok": self.ok, "exit_code": self.exit_code, "seconds": self.seconds, "checks": checks}


def counted_checks(number: int) -> str:
    """A number of passed checks, for a sentence."""
    return f"{number} check{'s' * (number != 1)} pass{'es' * (number == 1)}"


def lines_of(check: Check, width: int) -> list[str]:
    """A finding as text: a line, and the remedy indented below it."""
    line = f"{check.state.value:<7} {check.id:<{width}} {check.text}"
    return [line, f"        {'':<{width}} → {check.remedy}"] if check.remedy else [line]


def in_order(checks: Sequence[Check]) -> tuple[Check, ...]:
    """Findings by their severity, the worst last; among equals by the list of all checks."""
    return tuple(sorted(checks, key=lambda each: (_SEVERITY[each.state.value], ORDER[each.id])))
