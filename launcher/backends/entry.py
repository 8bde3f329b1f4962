"""What runs inside a Spark task: the least that starts an agent, watches it and tells how it ended.

These functions travel by value to Python workers that know nothing of us, and they leave nothing there:
no module, no environment variable, no import path, since Spark uses the worker again for other people's
work. So each is whole in itself, on the standard library and pyspark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

# The row that comes home: how the task's agent ended, as a JSON text.
ROW = "document string"


def classic_task(boot: str, archive: bytes, agent: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function of ``rdd.barrier().mapPartitions``; it yields JSON texts.

    Args:
        boot: the agent's boot document, but for what only the task knows.
        archive: the zip of `launcher`.
        agent: the program that starts an agent from it.
    """
    run = _runner(boot, archive, agent)

    def task(_rows: Iterator[Any]) -> Iterator[Any]:
        from pyspark import BarrierTaskContext

        yield from run(BarrierTaskContext.get())

    return task


def connect_task(boot: str, archive: bytes, agent: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The same as the function of ``DataFrame.mapInArrow``; it yields batches of `ROW`."""
    run = _runner(boot, archive, agent)

    def task(_batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import BarrierTaskContext

        for document in run(BarrierTaskContext.get()):
            yield pa.RecordBatch.from_arrays([pa.array([document], pa.string())], ["document"])

    return task


def _runner(boot: str, archive: bytes, agent: str) -> Callable[[Any], Iterator[str]]:
    """A function of the task's context. All of these are nested, so that they are pickled by value."""
    start = _starter(archive, agent)

    def run(context: Any) -> Iterator[str]:
        import json
        import tempfile

        number, granted = context.partitionId(), context.resources().get("gpu")
        gpus = list(granted.addresses) if granted else None
        born = {**json.loads(boot), "agent": number, "cores": context.cpus(), "gpus": gpus}
        with tempfile.TemporaryFile() as errors:
            code = start(born, errors).wait()
            errors.seek(max(0, errors.seek(0, 2) - 8192))
            said = errors.read().decode("utf-8", "replace")
        if code == 69:  # it has found no way to the engine: the others would wait for it
            raise RuntimeError(f"rankdeck-unreachable: agent {number} on {said.strip()}")
        yield json.dumps({"agent": number, "code": code, "errors": said})

    return run


def _starter(archive: bytes, agent: str) -> Callable[[dict[str, Any], Any], Any]:
    def in_memory(data: bytes) -> int:
        import os

        descriptor = os.memfd_create("rankdeck")
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def environment() -> dict[bytes, bytes]:
        """What the executor was started with, and not what an earlier task has put into this process."""
        import os

        name = b"CUDA_VISIBLE_DEVICES"
        with open("/proc/self/environ", "rb") as file:
            pairs = [pair.partition(b"=") for pair in file.read().split(b"\0")]
        preset = {key: value for key, _, value in pairs if key == name}
        return {key: value for key, value in os.environb.items() if key != name} | preset

    def start(born: dict[str, Any], errors: Any) -> Any:
        """An agent. Its standard input stays open for its life: the end of it says that we are gone."""
        import contextlib
        import json
        import os
        import subprocess
        import sys

        program = in_memory(archive)
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", agent, f"/proc/self/fd/{program}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=(program,),
            env=environment(),
            start_new_session=True,
        )
        os.close(program)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # one that could not start says why on its stderr
            process.stdin.write(json.dumps(born).encode() + b"\n")
            process.stdin.flush()
        return process

    return start
