"""Agents on this machine: a process in place of a Spark task, and otherwise the same path.

Needs no JVM, no Spark and no network: the channel is an inherited pair of sockets.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import launcher
from launcher.channel.link import Link
from launcher.codec import to_plain
from launcher.errors import CannotPlace
from launcher.plan import Plan
from launcher.request import Request
from launcher.runs.private import opener
from launcher.spec import Offer
from launcher.worker import agent, devices, handshake

ROOT = str(Path(launcher.__file__).resolve().parent.parent)
AGENT_ERRORS = "agent.err"


class LocalBackend:
    """One agent beside the engine."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: Path | None = None

    def offers(self, request: Request) -> tuple[Sequence[Offer], str]:
        """This machine: the cores that this process may use, and the GPUs that NVML shows."""
        found = devices.discover(request.environ)
        cores = len(os.sched_getaffinity(0))
        offer = Offer(agent=0, host=socket.gethostname(), cores=cores, devices=found.devices)
        return (offer,), found.reason

    def launch(self, request: Request, plan: Plan, folder: Path) -> Sequence[Link]:
        """Start the agent with one end of a pair of sockets.

        Raises:
            CannotPlace: the agent's process cannot be started.
        """
        near, far = socket.socketpair()
        token = handshake.new_token()
        boot = agent.Boot(
            agent=0,
            token=token,
            descriptor=far.fileno(),
            watch=os.getpid(),
            sample_s=request.spec.sample_s,
            devices=tuple(d for r in plan.ranks for d in r.devices),
        )
        self._errors = folder / AGENT_ERRORS
        try:
            self._process = self._spawn(far.fileno(), self._errors)
        except OSError as error:
            near.close()
            raise CannotPlace(f"cannot start an agent: {error.strerror}") from error
        finally:
            far.close()
        assert self._process.stdin is not None
        with self._process.stdin as pipe:
            pipe.write(json.dumps(to_plain(boot)).encode() + b"\n")
        return [Link(near, 0, token)]

    def rendezvous_host(self, plan: Plan) -> str:
        """Loopback: all ranks are here."""
        del plan
        return "127.0.0.1"

    def close(self, timeout_s: float) -> bool:
        """Wait for the agent's process tree to be gone, and drop its error file if nothing is in it."""
        if self._process is None:
            return True
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        if self._errors and self._errors.exists() and not self._errors.stat().st_size:
            self._errors.unlink()
        return True

    def complaint(self) -> str:
        """The last line of the agent's error file, and where the rest is."""
        if not self._errors or not self._errors.exists():
            return ""
        lines = self._errors.read_text(errors="replace").strip().splitlines()
        return f"the agent said: {lines[-1]} (all of it in {self._errors})" if lines else ""

    def _spawn(self, descriptor: int, errors: Path) -> subprocess.Popen[bytes]:
        with open(errors, "ab", opener=opener) as file:
            return subprocess.Popen(
                [sys.executable, "-P", "-c", agent.BOOT, ROOT],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=file,
                cwd="/",
                pass_fds=(descriptor,),
                start_new_session=True,
            )
