"""What runs inside a Spark task: the least that starts an agent, watches it and tells how it ended.

These functions travel by value to Python workers that know nothing of us, and they leave nothing there:
no module, no environment variable, no import path, since Spark uses the worker again for other people's
work. So each is whole in itself, on the standard library and pyspark.

An agent asks its task for something by a JSON line on its standard output:
{"gather": text}    one `allGather` of all tasks; the answers come as a JSON line on its standard input
{"carry": n}        n bytes follow, which go home with the task's rows
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

# The row that comes home: one JSON text, then a piece of what could not be delivered otherwise.
ROW = "document string, data binary"


def classic_task(
    boot: str, archive: bytes, agent: str, standing: bytes
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function of ``rdd.barrier().mapPartitions``; it yields (JSON text, bytes) pairs.

    Args:
        boot: the agent's boot document, but for what only the task knows.
        archive: the zip of `launcher`.
        agent: the program that starts an agent from it.
        standing: what lets the run go on without its engine; empty for nothing.
    """
    run = _runner(boot, archive, agent, standing)

    def task(_rows: Iterator[Any]) -> Iterator[Any]:
        from pyspark import BarrierTaskContext

        yield from run(BarrierTaskContext.get())

    return task


def connect_task(
    boot: str, archive: bytes, agent: str, standing: bytes
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The same as the function of ``DataFrame.mapInArrow``; it yields batches of `ROW`."""
    run = _runner(boot, archive, agent, standing)

    def task(_batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import BarrierTaskContext

        for document, data in run(BarrierTaskContext.get()):
            arrays = [pa.array([document], pa.string()), pa.array([data], pa.binary())]
            yield pa.RecordBatch.from_arrays(arrays, ["document", "data"])

    return task


def _runner(
    boot: str, archive: bytes, agent: str, standing: bytes
) -> Callable[[Any], Iterator[tuple[str, bytes]]]:
    """A function of the task's context. All of these are nested, so that they are pickled by value."""
    start, serve = _starter(archive, agent, standing), _server()

    def run(context: Any) -> Iterator[tuple[str, bytes]]:
        import json
        import tempfile

        number, granted = context.partitionId(), context.resources().get("gpu")
        gpus = list(granted.addresses) if granted else None
        born = {**json.loads(boot), "agent": number, "cores": context.cpus(), "gpus": gpus}
        with tempfile.TemporaryFile() as errors:
            process = start(born, errors)
            for piece in serve(process, context):
                yield json.dumps({"agent": number}), piece
            code = process.wait()
            errors.seek(max(0, errors.seek(0, 2) - 8192))
            said = errors.read().decode("utf-8", "replace")
        yield json.dumps({"agent": number, "code": code, "errors": said}), b""

    return run


def _starter(archive: bytes, agent: str, standing: bytes) -> Callable[[dict[str, Any], Any], Any]:
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

        files = [in_memory(data) for data in (archive, standing) if data]
        document = {**born, "standing": files[1]} if standing else born
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", agent, f"/proc/self/fd/{files[0]}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            pass_fds=files,
            env=environment(),
            start_new_session=True,
        )
        for descriptor in files:
            os.close(descriptor)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # one that could not start says why on its stderr
            process.stdin.write(json.dumps(document).encode() + b"\n")
            process.stdin.flush()
        return process

    return start


def _server() -> Callable[[Any, Any], Iterator[bytes]]:
    def serve(process: Any, context: Any) -> Iterator[bytes]:
        """Do what the agent asks for until it ends; the pieces that go home with the task."""
        import contextlib
        import json

        while line := process.stdout.readline():
            asked = json.loads(line)
            if "gather" in asked:
                answers = context.allGather(asked["gather"])
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write(json.dumps(answers).encode() + b"\n")
                    process.stdin.flush()
            elif "carry" in asked:
                yield process.stdout.read(asked["carry"])

    return serve
