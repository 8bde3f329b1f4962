"""Joins the sampler's thread to the agent's loop: samples wait in a queue until the loop takes them."""

from __future__ import annotations

import contextlib
import os
import queue
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from launcher import codec
from launcher.events import Sampled

if TYPE_CHECKING:
    from launcher.spec import Device
    from launcher.worker.boot import Boot
    from launcher.worker.probe import Sampler

_KEEP = 16


class Sampling:
    """The agent's sensors, started with the first gang; a slow sensor delays nothing but samples."""

    def __init__(
        self, boot: Boot, devices: tuple[Device, ...], emit: Callable[[str, Mapping[str, Any]], None]
    ) -> None:
        self._boot = boot
        self._devices = devices
        self._emit = emit
        self._waiting: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue(_KEEP)
        self._sampler: Sampler | None = None

    def start(self, ranks: Callable[[], Mapping[int, int]], wake: int) -> None:
        """Begin to sample; `wake` is a descriptor whose other end the loop listens to."""
        from launcher.worker.probe import Probe, Sampler

        self.stop()
        boot, devices = self._boot, self._devices
        self._sampler = Sampler(
            lambda: Probe(agent=boot.agent, host=boot.host, devices=devices),
            boot.sample_s,
            ranks,
            deliver=lambda sample: self._put(wake, "sampled", _fields(sample)),
            note=lambda text: self._put(wake, "note_made", {"text": text, "time": 0.0}),
        )
        self._sampler.start()

    def stop(self) -> None:
        """Ask the thread to end; it is a daemon, so a hung driver cannot keep the agent."""
        if self._sampler:
            self._sampler.stop()
            self._sampler = None

    def deliver(self) -> None:
        """Emit what the thread has left here."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._emit(*self._waiting.get_nowait())

    def _put(self, wake: int, tag: str, fields: dict[str, Any]) -> None:
        """Called in the sampler's thread. A sample that finds no room is dropped: newer ones follow."""
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait((tag, fields))
        with contextlib.suppress(BlockingIOError):
            os.write(wake, b"s")


def _fields(sample: Sampled) -> dict[str, Any]:
    plain: dict[str, Any] = codec.to_plain(sample)
    return plain
