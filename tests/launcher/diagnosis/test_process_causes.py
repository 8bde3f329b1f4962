"""Causes in programs, collectives, networks, models and hosts, from messages as torch 2.13 wrote them."""

from __future__ import annotations

import pytest

from launcher.state import events as ev
from tests.launcher.diagnosis.gangs import (
    ALL_REDUCE,
    TORCH,
    by_user,
    cause_of,
    found,
    killed,
    left,
    raised,
    stopped,
)

GLOO = "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp"
CLOSED = f"{GLOO}/pair.cc:553] Connection closed by peer [127.0.0.1]:65231. This is typically caused by a …"
STORE, NETWORK = "torch.distributed.DistStoreError", "torch.distributed.DistNetworkError"
SPAWN = "torch.multiprocessing.spawn.ProcessExitedException"
NUMPY = "numpy._core._exceptions._ArrayMemoryError"
GUARD = {1: ("        An attempt has been made to start a new process before the",
             "        current process has finished its bootstrapping phase.")}  # fmt: skip
WEIGHTS = (
    "Weights only load failed. This file can still be loaded, to do so you have two options…\n\tWeightsUnpickler "
    "error: Unsupported global: GLOBAL __main__.Cfg was not an allowed global by default."
)
UNUSED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates "
    "that your module has parameters that were not used in producing loss.\nParameter indices which did not "
    "receive grad for rank 1: 2 3\n In addition, you can set the environment variable"
)
LOAD = f'  File "{TORCH}/serialization.py", line 1568, in load\n    return _load(\n'
ARCHIVE = (
    f'  File "{TORCH}/serialization.py", line 807, in __init__\n'
    "    super().__init__(torch._C.PyTorchFileReader(name_or_buffer))\n"
    "                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
)
LEGACY = f'  File "{TORCH}/serialization.py", line 1886, in _legacy_load\n    magic_number = pickle_module.load(f)\n'

TELLING = [
    (NETWORK, "The server socket has failed to listen on any local network address. port: 29556, useIpv6: false, "
     "code: -98, name: EADDRINUSE, message: address already in use", "port-in-use", "certain", "port 29556"),
    ("OSError", "[Errno 98] Address already in use", "port-in-use", "likely", "in use"),
    ("socket.gaierror", "[Errno -2] Name or service not known", "name-unknown", "certain", "no address"),
    ("urllib.error.URLError", "<urlopen error [Errno -2] Name or service not known>", "name-unknown", "certain", ""),
    (NETWORK, "The client socket has timed out after 3000ms while trying to connect to (10.0.0.9, 4711).",
     "master-unreachable", "certain", "10.0.0.9:4711 in 3 s"),
    (STORE, "Timed out after 4 seconds waiting for clients. 1/3 clients joined.", "ranks-missing", "certain",
     "1 of 3"),
    (STORE, "wait timeout after 3000ms, keys: /default_pg/0//cpu//0/0", "ranks-missing", "certain", "rank 0"),
    ("ValueError", "Default process group has not been initialized, please make sure to call "
     "init_process_group.", "group-missing", "certain", ""),
    ("ValueError", "trying to initialize the default process group twice!", "group-twice", "certain", ""),
    ("RuntimeError", "Distributed package doesn't have NCCL built in", "nccl-without-gpu", "certain", "NCCL"),
    ("RuntimeError", "No backend type associated with device type cpu", "nccl-without-gpu", "likely", "CPU"),
    ("RuntimeError", UNUSED, "ddp-unused-parameters", "certain", ""),
    ("RuntimeError", "[1]: params[0] in this process with sizes [3, 2] appears not to match sizes of the same "
     "param in process 0.", "ddp-parameters-differ", "certain", ""),
    ("RuntimeError", "DDP expects same model across all ranks, but Rank 1 has 4 params, while rank 0 has "
     "inconsistent 2 params.", "ddp-parameters-differ", "certain", ""),
    ("RuntimeError", "Expected to mark a variable ready only once. This error is caused by one of …\nParameter at "
     "index 1 with name a.bias has been marked as ready twice.", "ddp-ready-twice", "certain", ""),
    ("RuntimeError", "Function 'SqrtBackward0' returned nan values in its 0th output.", "not-finite", "certain",
     "SqrtBackward0"),
    ("RuntimeError", "PytorchStreamReader failed reading zip archive: failed finding central directory",
     "checkpoint-torn", "certain", "not whole"),
    ("_pickle.UnpicklingError", "pickle data was truncated", "checkpoint-torn", "likely", ""),
    ("_pickle.UnpicklingError", WEIGHTS, "weights-only", "certain", ""),
    ("ModuleNotFoundError", "No module named 'apex'", "module-missing", "certain", "no module apex"),
    ("ImportError", "libcudart.so.11.0: cannot open shared object file: No such file or directory",
     "library-missing", "certain", "libcudart.so.11.0"),
    ("ImportError", "/lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by x)",
     "library-missing", "certain", "GLIBCXX_3.4.32"),
    ("torch._inductor.exc.InductorError", "InvalidCxxCompiler: No working C++ compiler found in "
     "torch._inductor.config.cpp.cxx: (None, 'g++')", "compiler-missing", "certain", "compiler"),
    ("FileNotFoundError", "[Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'", "compiler-missing",
     "certain", "nvcc"),
    ("RuntimeError", "Ninja is required to load C++ extensions (pip install ninja to get it)",
     "compiler-missing", "certain", ""),
    ("EOFError", "EOF when reading a line", "no-terminal", "likely", "input()"),
    ("bdb.BdbQuit", "", "no-terminal", "certain", "debugger"),
    ("RuntimeError", "DataLoader worker (pid 19315) is killed by signal: Killed. ", "loader-worker-killed",
     "certain", "Killed"),
    ("RuntimeError", "DataLoader worker (pid(s) 19432) exited unexpectedly", "loader-worker-killed", "certain", ""),
    ("RuntimeError", "DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's "
     "workers are out of shared memory.", "shm-full", "likely", "/dev/shm"),
    ("RuntimeError", "unable to write to file </torch_4711_12_0>: No space left on device (28)", "shm-full",
     "certain", "/dev/shm"),
    ("OSError", "[Errno 28] No space left on device: '/dev/shm/psm_1'", "shm-full", "certain", ""),
    ("OSError", "[Errno 28] No space left on device", "disk-full", "certain", "disk"),
    ("OSError", "[Errno 122] Disk quota exceeded: '/home/ada/a'", "disk-full", "certain", "quota"),
    ("MemoryError", "", "memory-limit", "certain", "memory"),
    (NUMPY, "Unable to allocate 32.0 GiB for an array with shape (4294967296,)", "memory-limit", "certain", ""),
    ("RuntimeError", "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: "
     "you tried to allocate 17179869184 bytes. Error code 12", "memory-limit", "certain", ""),
    ("OSError", "[Errno 24] Too many open files: '/dev/null'", "too-many-files", "certain", ""),
    ("launcher.agent.report.UnpicklableResult", "the return value: a value of type dict cannot be pickled: cannot "
     "pickle '_thread.lock' object; that is value['best'].lock", "unpicklable-result", "certain",
     "value['best'].lock cannot be pickled"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "message", "rule", "certainty", "words"), TELLING)
def test_an_exception_that_tells_its_cause(
    kind: str, message: str, rule: str, certainty: str, words: str
) -> None:
    cause = found(raised(kind, message))

    assert (rule, certainty, 1) == (cause.id, cause.certainty, cause.rank)
    assert words in cause.text
    assert cause.remedy


@pytest.mark.parametrize(("kind", "message"), [(kind, message) for kind, message, *_ in TELLING])
def test_the_same_words_of_a_user_are_no_cause(kind: str, message: str) -> None:
    """In an exception that the user's code raises, in one of another type, or in the middle of a message."""
    ours = kind.endswith("UnpicklableResult")
    if not ours:
        assert cause_of(raised(kind, message, frames=by_user("raise Problem(text)"))) is None
    assert cause_of(raised("mypackage.Problem", message)) is None
    if message and not ours:
        assert cause_of(raised(kind, f"while it was tested that: {message}")) is None


@pytest.mark.parametrize(
    ("kind", "message", "frames"),
    [
        ("EOFError", "", by_user("chunk = pickle.load(pipe)")),
        ("KeyError", "101", by_user("table[101]")),
        ("OSError", "[Errno 22] Invalid argument", by_user("file.seek(-1)")),
        ("ImportError", "cannot import name 'x' from 'y'", ALL_REDUCE),
        ("FileNotFoundError", "[Errno 2] No such file or directory: 'nvcc.log'", ALL_REDUCE),
        ("ConnectionRefusedError", "[Errno 111] Connection refused", ALL_REDUCE),
        ("RuntimeError", "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)", ALL_REDUCE),
        ("_pickle.UnpicklingError", "invalid load key, 'h'.", by_user("pickle.load(file)")),
        (STORE, "wait timeout after 3000ms, keys: /my/own/key", ALL_REDUCE),
    ],
)
def test_an_exception_that_leaves_the_cause_open(kind: str, message: str, frames: str) -> None:
    assert cause_of(raised(kind, message, frames=frames)) is None


def test_a_peer_that_left_while_others_were_in_a_collective() -> None:
    cause = found([*left(0), *raised("RuntimeError", CLOSED)])

    assert ("left-early", "certain", 0) == (cause.id, cause.certainty, cause.rank)
    assert "rank 0 had ended with 0 while rank 1 was in all_reduce" == cause.text
    assert cause_of(raised("RuntimeError", CLOSED)) is None
    assert cause_of([*left(0), *raised("RuntimeError", "no such column")]) is None


def test_sizes_that_gloo_found_to_differ_end_the_process() -> None:
    lines = (
        "terminate called after throwing an instance of 'gloo::EnforceNotMet'",
        "  what():  [enforce fail at /__w/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:456] "
        "op.preamble.length <= op.nbytes. 2000 vs 1000. Received data size doesn't match expected size.",
    )
    cause = found(killed("SIGABRT", 134), output={1: lines})

    assert ("collective-mismatch", "certain") == (cause.id, cause.certainty)
    assert "2000" in cause.evidence[0]
    assert cause_of(killed("SIGABRT", 134)) is None
    assert cause_of(killed("SIGSEGV", 139), output={1: lines}) is None


def test_collectives_that_torch_found_to_differ_are_named_by_rank() -> None:
    message = (
        "Detected mismatch between collectives on ranks. Rank 1 is running collective: CollectiveFingerPrint("
        "SequenceNumber=7, OpType=ALLREDUCE, TensorShape=[4], TensorDtypes=Float), but Rank 0 is running "
        "collective: CollectiveFingerPrint(SequenceNumber=7, OpType=BROADCAST, TensorShape=[4], …).\tCollectives "
        "differ in the following aspects: \t Op type: ALLREDUCE vs BROADCAST"
    )
    cause = found(raised("RuntimeError", message))

    assert ("collective-mismatch", "certain") == (cause.id, cause.certainty)
    assert (
        "rank 1 called allreduce of shape [4], its number 7",
        "rank 0 called broadcast of shape [4], its number 7",
    ) == cause.evidence


def test_a_collective_that_took_too_long_names_who_was_elsewhere() -> None:
    message = f"{GLOO}/unbound_buffer.cc:78] Timed out waiting 3000ms for recv operation to complete"
    cause = found([*raised("RuntimeError", message), *stopped(0)])

    assert ("collective-timeout", "certain") == (cause.id, cause.certainty)
    assert "rank 1 waited 3 s in all_reduce for another rank" == cause.text
    assert ("rank 0 ran until the gang was stopped, without such an error",) == cause.evidence


def test_a_monitored_barrier_names_who_is_missing() -> None:
    message = "[Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 3000 ms\n Original exception: …"
    cause = found(raised("RuntimeError", message, rank=0), size=3)

    assert ("collective-timeout", "certain") == (cause.id, cause.certainty)
    assert "rank 0 waited 3 s in monitored_barrier for ranks 1, 2" == cause.text


def test_what_the_watchdogs_of_all_ranks_have_recorded_names_who_was_missing() -> None:
    """The rank that waited is aborted, and those that were not in the collective are ended by rankdeck."""

    def ended(rank: int, signal: str, number: int) -> ev.Event:
        calls = (
            ev.CollectiveCall(group="dp", number=900 + rank, operation="all_gather"),
            ev.CollectiveCall(group="default_pg", number=number, operation="all_reduce"),
        )
        return ev.RankExited(time=6.0 + rank, rank=rank, exit_code=128, signal=signal, collectives=calls)

    watchdog = (
        "  what():  [PG ID 0 PG GUID 0(default_pg) Rank 0] Process group watchdog thread terminated with exception: "
        "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=42, OpType=ALLREDUCE, NumelIn=10, "
        "NumelOut=10, Timeout(ms)=600000) ran for 600029 milliseconds before timing out."
    )
    numbers = {0: 42, 1: 41, 2: 42, 3: 40}
    stop = ev.StopRequested(time=6.1, by="rank", reason="rank 0 failed", grace_s=10.0)
    first, *others = (ended(r, "SIGTERM" if r else "SIGABRT", n) for r, n in numbers.items())
    cause = found([first, stop, *others], size=4, output={0: (watchdog,)})

    assert ("collective-timeout", "certain") == (cause.id, cause.certainty)
    assert "rank 0 waited 600 s in allreduce for ranks 1, 3" == cause.text
    assert "and of rank 3: all_reduce was its call number 40 in default_pg" in cause.evidence


@pytest.mark.parametrize(("own", "awaited"), [("mesh_dp (4)", "rank 1"), ("mesh_dp (5)", "another rank")])
def test_groups_along_one_dimension_of_a_mesh_are_told_apart(own: str, awaited: str) -> None:
    """They have one description; a rank of another one of them has no part in this collective."""
    numbers = {0: (42, "mesh_dp (4)"), 1: (41, own)}
    ends = [
        ev.RankExited(
            time=6.0 + rank, rank=rank, exit_code=134, signal="SIGTERM" if rank else "SIGABRT",
            collectives=(ev.CollectiveCall(group=group, number=number, operation="all_reduce"),),
        )
        for rank, (number, group) in numbers.items()
    ]  # fmt: skip
    watchdog = (
        "  what():  [PG ID 2 PG GUID 4(mesh_dp) Rank 0] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=42, OpType=ALLREDUCE, NumelIn=10, NumelOut=10, Timeout(ms)=600000) ran"
    )
    stop = ev.StopRequested(time=6.1, by="rank", reason="rank 0 failed", grace_s=10.0)
    cause = found([ends[0], stop, ends[1]], output={0: (watchdog,)})
    assert f"rank 0 waited 600 s in allreduce for {awaited}" == cause.text


def test_the_watchdog_of_nccl_names_the_collective_and_the_recorder_who_is_behind() -> None:
    """As torch 2.5 and later write it, from their sources."""
    watchdog = (
        "  what():  [PG ID 0 PG GUID 0(default_pg) Rank 1] Process group watchdog thread terminated with exception: "
        "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=42, OpType=ALLREDUCE, NumelIn=10, "
        "NumelOut=10, Timeout(ms)=600000) ran for 600029 milliseconds before timing out."
    )
    last = (
        "[PG ID 0 PG GUID {} Rank {}] failure detected by watchdog at work sequence id: 42 PG status: "
        "last enqueued work: {}, last completed work: 41"
    )
    default, dp = "0(default_pg)", "4(mesh_dp)"
    output: dict[int, tuple[str, ...]] = {
        0: (last.format(default, 0, 42), last.format(dp, 0, 900)),
        1: (last.format(default, 1, 42), last.format(dp, 1, 7), watchdog),
        2: (last.format(default, 2, 41),),
    }
    cause = found(killed("SIGABRT", 134), size=3, output=output)

    assert ("collective-timeout", "certain") == (cause.id, cause.certainty)
    assert "rank 1 waited 600 s in allreduce for another rank" == cause.text
    assert (
        "it was collective 42 of its group",
        "rank 2 had begun 41 collectives, and others 42",
    ) == cause.evidence
    assert cause_of(killed("SIGABRT", 134), output={1: ("Aborted",)}) is None


def test_a_master_whose_name_has_no_address() -> None:
    message = "The client socket has timed out after 3000ms while trying to connect to (no-host, 4711)."
    warning = (
        "[W] The IPv6 network addresses of (no-host, 4711) cannot be retrieved (gai error: -2 - Name …)."
    )

    attempt = (
        "[W] The client socket has failed to connect to [no-host]:4711 (errno: 111 - Connection refused)."
    )

    cause = found(raised(NETWORK, message), output={1: (warning,)})
    assert ("name-unknown", "likely") == (cause.id, cause.certainty)
    assert "master-unreachable" == found(raised(NETWORK, message), output={1: (warning, attempt)}).id
    assert "master-unreachable" == found(raised(NETWORK, message)).id


def test_a_script_without_a_guard() -> None:
    cause = found(raised(SPAWN, "process 1 terminated with exit code 1"), output=GUARD)
    assert ("main-guard-missing", "certain") == (cause.id, cause.certainty)
    exits: list[ev.Event] = [ev.RankExited(time=6.0, rank=1, exit_code=1)]
    cause = found(exits, output=GUARD)
    assert ("main-guard-missing", "likely") == (cause.id, cause.certainty)

    assert cause_of(raised("KeyError", "'x'"), output=GUARD) is None
    assert cause_of(raised(SPAWN, "process 1 terminated with exit code 1")) is None
    assert cause_of(exits) is None


@pytest.mark.parametrize(
    ("kind", "message", "frames", "certainty"),
    [
        ("EOFError", "", LOAD, "certain"),
        ("OSError", "[Errno 22] Invalid argument", ARCHIVE, "likely"),
        ("KeyError", "101", LEGACY, "likely"),
    ],
)
def test_a_checkpoint_that_is_not_whole(kind: str, message: str, frames: str, certainty: str) -> None:
    cause = found(raised(kind, message, frames=frames))

    assert ("checkpoint-torn", certainty) == (cause.id, cause.certainty)


def test_a_tensor_whose_worker_is_gone() -> None:
    """The loader's handler of SIGCHLD had no time to say what became of the worker."""
    frames = (
        f'  File "{TORCH}/utils/data/dataloader.py", line 1291, in _try_get_data\n    data = self._data_queue.get()\n'
        '  File "/opt/python/lib/python3.11/multiprocessing/resource_sharer.py", line 86, in get_connection\n'
        "    c = Client(address, authkey=process.current_process().authkey)\n"
    )
    reset = raised("ConnectionResetError", "[Errno 104] Connection reset by peer", frames=frames)
    wrote = ("RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed. ",)

    assert ("loader-worker-killed", "likely") == (found(reset).id, found(reset).certainty)
    cause = found(reset, output={1: wrote})
    assert "certain" == cause.certainty
    assert "(Killed)" in cause.text
    assert cause_of(raised("ConnectionResetError", "[Errno 104] Connection reset by peer")) is None


def test_a_disk_that_was_full_when_a_checkpoint_was_written() -> None:
    earlier = (
        'Traceback (most recent call last):\n  File "/x/io.py", line 1, in write\n    self.file.write(data)\n'
        "OSError: [Errno 28] No space left on device\n\nDuring handling of the above exception, another exception "
        "occurred:\n\n"
    )
    message = "[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0"

    assert "disk-full" == found(raised("RuntimeError", message, before=earlier)).id
    assert cause_of(raised("RuntimeError", message)) is None
    assert cause_of(raised("KeyError", "'x'", before=earlier)) is None


def test_an_end_after_the_result() -> None:
    returned = ev.RankReturned(time=4.0, rank=1, type="int", size=4)
    exits: list[ev.Event] = [ev.RankExited(time=6.0, rank=1, exit_code=7, after_return=True)]
    cause = found([returned, *exits])

    assert ("failed-after-result", "certain") == (cause.id, cause.certainty)
    assert "exit code 7" in cause.text
    crash = ev.RankExited(time=6.0, rank=1, exit_code=139, signal="SIGSEGV", after_return=True)
    assert "killed by SIGSEGV" in found([returned, crash]).text
    assert cause_of(exits) is None
    assert cause_of([returned, *killed("SIGSEGV", 139)]) is None, "it may have published, and gone on"
    assert cause_of(killed("SIGSEGV", 139)) is None


def test_a_signal_that_was_not_ours() -> None:
    cause = found(killed("SIGTERM", 143))

    assert ("terminated", "certain", 1) == (cause.id, cause.certainty, cause.rank)
    assert cause_of([*stopped(0, 1)]) is None


def test_memory_that_ended_a_native_program() -> None:
    lines = {
        1: ("terminate called after throwing an instance of 'std::bad_alloc'", "  what():  std::bad_alloc")
    }

    assert "memory-limit" == found(killed("SIGABRT", 134), output=lines).id
    assert cause_of(killed("SIGABRT", 134), output={1: ("no std::bad_alloc was seen",)}) is None


def reported(rank: int, step: int, loss: float, time: float = 3.0) -> ev.RankReported:
    return ev.RankReported(time=time, rank=rank, step=step, metrics={"loss": loss})


NAN = float("nan")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("ValueError", "loss is NaN, giving up"),
        ("FloatingPointError", "stop"),
        ("AssertionError", "not finite"),
    ],
)
def test_a_rank_that_gave_up_for_a_nan_points_to_the_first(kind: str, message: str) -> None:
    told = [reported(1, 7, NAN, 4.0), reported(0, 6, float("inf"), 3.0)]
    cause = found([*told, *raised(kind, message, frames=by_user("raise Problem"))])

    assert ("not-finite", "likely", 0) == (cause.id, cause.certainty, cause.rank)
    assert "loss of rank 0 was not finite at step 6" == cause.text
    assert "1 other rank reported one later" in cause.evidence[0]


def test_a_nan_is_not_the_cause_of_everything_after_it() -> None:
    assert cause_of([reported(1, 6, NAN), *raised("KeyError", "'target'")]) is None
    assert cause_of([reported(1, 6, 0.5), *raised("ValueError", "loss is NaN")]) is None
    assert cause_of([reported(1, 6, NAN), *raised("ValueError", "no information in the sinfonia")]) is None


def test_a_silent_end_while_a_figure_was_not_finite() -> None:
    exits: list[ev.Event] = [ev.RankExited(time=6.0, rank=1, exit_code=3)]

    assert "not-finite" == found([reported(1, 6, NAN), *exits]).id
    assert cause_of([reported(1, 6, NAN), reported(1, 7, 0.5), *exits]) is None
    assert cause_of([reported(1, 6, NAN), *killed("SIGSEGV", 139)]) is None
