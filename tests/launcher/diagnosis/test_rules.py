"""Rules about programs, collectives, networks, models and hosts: what they know, what only looks so."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.diagnosis.causes import Evidence, find_cause
from launcher.diagnosis.failure import Told, errors_of
from launcher.errors import NoProgress
from launcher.spec.places import Assignment
from launcher.state import events as ev
from launcher.state.fold import fold_all
from launcher.state.outcome_rules import verdict
from launcher.state.tracebacks import DIRECT

GLOO = "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/"
CLOSED = GLOO + "pair.cc:553] Connection closed by peer [127.0.0.1]:25514. This is typically caused by …"
TIMED_OUT = GLOO + "unbound_buffer.cc:78] Timed out waiting 2000ms for recv operation to complete"
FINGERPRINTS = (
    "Detected mismatch between collectives on ranks. Rank 0 is running collective: CollectiveFingerPrint("
    "SequenceNumber=0, OpType=ALLREDUCE, TensorShape=[4], TensorDtypes=Float, …), but Rank 1 "
    "is running collective: CollectiveFingerPrint(SequenceNumber=0, OpType=BROADCAST, TensorShape=[4], …"
)
UNUSED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. …\n"
    "Parameter indices which did not receive grad for rank 0: 2 3\n In addition, …"
)
MAKING = '  File "/v/site-packages/torch/distributed/distributed_c10d.py", line 1, in init_process_group\n'
LOADING = '  File "/v/site-packages/torch/serialization.py", line 1568, in load\n'
REFUSED = "The client socket has timed out after 3000ms while trying to connect to (10.0.0.7, 29500)."
NCCL_TIMEOUT = (
    "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=37, OpType=ALLREDUCE, "
    "NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for 600029 milliseconds before timing out."
)


def gang(*facts: ev.Event, size: int = 2) -> list[ev.Event]:
    """The facts of a gang on one host, up to some that follow its start."""
    places = tuple(Assignment(r, size, r, size, 0, 1, 0, "node1") for r in range(size))
    return [
        ev.RunSubmitted(time=1.0, name="t", target="t.py", mode="local", num_processes=size),
        ev.AgentJoined(time=1.0, agent=0, host="node1", pid=9),
        ev.GangPlaced(time=1.0, ranks=places),
        *(ev.RankStarted(time=2.0, rank=r, pid=10 + r) for r in range(size)),
        *facts,
    ]


def raised(kind: str, message: str, traceback: str = "", *, rank: int = 1, at: float = 5.0) -> list[ev.Event]:
    return [
        ev.RankRaised(
            time=at, rank=rank, kind=kind, message=message, traceback=f"{traceback}{kind}: {message}"
        ),
        ev.RankExited(time=at + 0.5, rank=rank, exit_code=1),
    ]


def cause(facts: Sequence[ev.Event], output: Sequence[str] = ()) -> ev.CauseFound | None:
    state = fold_all(facts, run="r1")
    return find_cause(state, Evidence(output_of=lambda _: output), verdict(state, now=9.0))


def of(kind: str, message: str, traceback: str = "") -> ev.CauseFound | None:
    return cause(gang(*raised(kind, message, traceback)))


TELLING = [
    (
        "ModuleNotFoundError",
        "No module named 'flash_attn.bert'",
        "",
        "module-missing",
        "certain",
        "flash_attn.bert",
    ),
    (
        "ImportError",
        "libcudart.so.12: cannot open shared object file: No such file",
        "",
        "library-missing",
        "certain",
        "node1 has no libcudart.so.12",
    ),
    (
        "ImportError",
        "/v/ext.cpython-311.so: undefined symbol: _ZN2at4_ops",
        "",
        "library-missing",
        "certain",
        "fit",
    ),
    (
        "torch._inductor.exc.InductorError",
        "InvalidCxxCompiler: No working C++ compiler found in …",
        "",
        "compiler-missing",
        "certain",
        "a C++ compiler",
    ),
    (
        "RuntimeError",
        "Ninja is required to load C++ extensions (pip install ninja)",
        "",
        "compiler-missing",
        "certain",
        "ninja",
    ),
    ("EOFError", "EOF when reading a line", "", "no-terminal", "certain", "asked for input"),
    ("bdb.BdbQuit", "", "", "no-terminal", "certain", "debugger"),
    (
        "RuntimeError",
        "\n        An attempt has been made to start a new process before the\n …",
        "",
        "main-guard-missing",
        "certain",
        "__main__",
    ),
    (
        "RuntimeError",
        "DataLoader worker (pid(s) 17935) exited unexpectedly",
        "",
        "loader-worker-killed",
        "certain",
        "rank 1",
    ),
    (
        "RuntimeError",
        "DataLoader worker (pid 9) is killed by signal: Killed. ",
        "",
        "loader-worker-killed",
        "certain",
        "by Killed",
    ),
    (
        "launcher.agent.report.UnpicklableResult",
        (
            "the return value: a value of type train.Fit cannot be pickled: cannot pickle '_thread.lock' "
            "object; its part value.history.lock is a _thread.lock"
        ),
        "",
        "unpicklable-result",
        "certain",
        "history.lock of it",
    ),
    ("OSError", "[Errno 28] No space left on device: '/ckpt/9.pt'", "", "disk-full", "certain", "/ckpt/9.pt"),
    (
        "RuntimeError",
        "[enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534",
        "",
        "disk-full",
        "likely",
        "node1",
    ),
    (
        "RuntimeError",
        "unable to write to file </torch_12_345_0>: No space left on device (28)",
        "",
        "shm-full",
        "certain",
        "/dev/shm",
    ),
    ("MemoryError", "", "", "memory-limit", "certain", "refused memory"),
    (
        "RuntimeError",
        (
            "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you "
            "tried to allocate 34359738368 bytes. Error code 12 (Cannot allocate memory)"
        ),
        "",
        "memory-limit",
        "certain",
        "32.0 GiB",
    ),
    ("OSError", "[Errno 24] Too many open files: 'a'", "", "too-many-files", "certain", "as many files"),
    ("RuntimeError", UNUSED, "", "ddp-unused-parameters", "certain", "2 3"),
    (
        "RuntimeError",
        "[1]: params[0] in this process with sizes [3, 4] appears not to match sizes of …",
        "",
        "ddp-parameters-differ",
        "certain",
        "rank 1",
    ),
    (
        "RuntimeError",
        "PytorchStreamReader failed reading zip archive: failed finding central directory",
        LOADING,
        "checkpoint-torn",
        "certain",
        "not whole",
    ),
    ("OSError", "[Errno 22] Invalid argument", LOADING, "checkpoint-torn", "likely", "Invalid argument"),
    ("EOFError", "", LOADING, "checkpoint-torn", "likely", "EOFError"),
    (
        "_pickle.UnpicklingError",
        (
            "Weights only load failed. This file can still be loaded, … \n\tWeightsUnpickler error:"
            " Unsupported global: GLOBAL argparse.Namespace was not an allowed global by default."
        ),
        "",
        "weights-only",
        "certain",
        "argparse.Namespace",
    ),
    (
        "RuntimeError",
        "Function 'SqrtBackward0' returned nan values in its 0th output.",
        "",
        "not-finite",
        "certain",
        "SqrtBackward0",
    ),
    ("OSError", "[Errno 98] Address already in use", "", "port-in-use", "certain", "a port"),
    (
        "torch.distributed.DistNetworkError",
        (
            "The server socket has failed to listen on any local network address. "
            "port: 60381, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
        ),
        "",
        "port-in-use",
        "certain",
        "port 60381",
    ),
    (
        "urllib.error.URLError",
        "<urlopen error [Errno -2] Name or service not known>",
        "",
        "name-unknown",
        "certain",
        "node1",
    ),
    (
        "socket.gaierror",
        "[Errno -3] Temporary failure in name resolution",
        "",
        "name-unknown",
        "certain",
        "node1",
    ),
    ("torch.distributed.DistNetworkError", REFUSED, "", "master-unreachable", "certain", "10.0.0.7:29500"),
    (
        "ValueError",
        "Default process group has not been initialized, please make sure to …",
        "",
        "group-missing",
        "certain",
        "before it was made",
    ),
    (
        "ValueError",
        "trying to initialize the default process group twice!",
        "",
        "group-twice",
        "certain",
        "twice",
    ),
    (
        "RuntimeError",
        "Distributed package doesn't have NCCL built in",
        "",
        "nccl-without-gpu",
        "certain",
        "nccl",
    ),
    ("RuntimeError", FINGERPRINTS, "", "collective-mismatch", "certain", "rank 1 was in broadcast of [4]"),
    ("RuntimeError", TIMED_OUT, "", "collective-timeout", "certain", "after 2 s"),
    ("torch.distributed.DistBackendError", NCCL_TIMEOUT, "", "collective-timeout", "certain", "allreduce"),
    (
        "torch.distributed.DistStoreError",
        "wait timeout after 2000ms, keys: /default_pg/0//cpu//0/1",
        MAKING,
        "ranks-missing",
        "certain",
        "rank 0 had raised nothing",
    ),
    (
        "torch.distributed.DistStoreError",
        "Timed out after 301 seconds waiting for clients. 3/4 clients joined.",
        "",
        "ranks-missing",
        "certain",
        "3 of 4 ranks",
    ),
]


@pytest.mark.parametrize(("kind", "message", "above", "rule", "certainty", "says"), TELLING)
def test_an_exception_that_tells_its_cause(
    kind: str, message: str, above: str, rule: str, certainty: str, says: str
) -> None:
    found = of(kind, message, above)
    assert found is not None
    assert (found.id, found.certainty) == (rule, certainty)
    assert says in " ".join((found.text, *found.evidence))
    assert found.evidence
    assert found.remedy


@pytest.mark.parametrize(("kind", "message", "above", "rule", "certainty", "says"), TELLING)
def test_an_exception_that_quotes_those_words_is_the_user_s_own(
    kind: str, message: str, above: str, rule: str, certainty: str, says: str
) -> None:
    assert of("mypackage.CheckError", f"expected an error, got: {message or kind}") is None


ALIKE = [
    ("ValueError", "No module named 'x' in the registry"),
    ("EOFError", ""),
    ("OSError", "[Errno 22] Invalid argument"),
    ("EOFError", "the stream of batches ended"),
    ("KeyError", "'nan'"),
    ("FloatingPointError", "loss is nan"),
    ("TimeoutError", "the feature store timed out after 30 s"),
    ("ConnectionRefusedError", "[Errno 111] Connection refused"),
    ("RuntimeError", "disk-full"),
    ("RuntimeError", "wait timeout after 2000ms, keys: my_key"),
    ("_pickle.UnpicklingError", "Weights only load failed. … invalid load key, '\\x00'."),
]


@pytest.mark.parametrize(("kind", "message"), ALIKE)
def test_what_may_have_many_causes_has_no_known_one(kind: str, message: str) -> None:
    assert of(kind, message) is None


def test_the_exception_that_another_was_raised_from_counts() -> None:
    block = 'Traceback (most recent call last):\n  File "t.py", line 1, in f\n'
    chained = (
        f"{block}OSError: [Errno 28] No space left on device: 'a'\n\n{DIRECT}\n\n{block}SaveError: step 9"
    )
    one = ev.RankRaised(time=5.0, rank=1, kind="m.SaveError", message="step 9", traceback=chained)
    found = cause(gang(one, ev.RankExited(time=6.0, rank=1, exit_code=1)))
    assert found is not None
    assert found.id == "disk-full"
    state = fold_all(gang(one), run="r1")
    assert errors_of(state.ranks[1]) == (
        Told("m.SaveError", "step 9"),
        Told("OSError", "[Errno 28] No space left on device: 'a'"),
    )


def test_who_left_while_a_peer_still_waited_is_the_cause_and_not_the_closed_connection() -> None:
    left = ev.RankExited(time=4.0, rank=1, exit_code=0)
    found = cause(gang(left, *raised("RuntimeError", CLOSED, rank=0)))
    assert found is not None
    assert (found.id, found.certainty) == ("left-early", "certain")
    assert "rank 1 had left" in found.text
    assert of("RuntimeError", CLOSED) is None


def test_a_monitored_barrier_names_who_is_missing_whoever_failed_first() -> None:
    reached = (
        "Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv …"
    )
    named = "[Rank 0]: Ranks 2, 3 failed to pass monitoredBarrier in 2000 ms\n Original exception: \n…"
    facts = gang(
        *raised("RuntimeError", reached, at=5.0), *raised("RuntimeError", named, rank=0, at=5.1), size=4
    )
    found = cause(facts)
    assert found is not None
    assert (found.id, found.rank) == ("collective-timeout", 2)
    assert "ranks 2 and 3 did not reach the monitored barrier within 2 s" in found.text


def test_a_report_that_is_not_finite_is_a_cause_only_of_a_failure_over_numbers() -> None:
    reports = [
        ev.RankReported(time=3.0, rank=0, step=6, metrics={"loss": 1.0}),
        ev.RankReported(time=3.2, rank=1, step=7, metrics={"loss": float("nan")}),
        ev.RankReported(time=3.3, rank=0, step=7, metrics={"loss": float("inf")}),
    ]
    found = cause(gang(*reports, *raised("FloatingPointError", "loss is nan", rank=0)))
    assert found is not None
    assert (found.id, found.certainty, found.rank) == ("not-finite", "likely", 1)
    assert found.text == "rank 1 was the first to report a loss of nan at step 7"
    assert cause(gang(*reports, *raised("KeyError", "'label'", rank=0))) is None


def test_a_value_that_was_delivered_before_the_process_failed() -> None:
    facts = gang(
        ev.RankReturned(time=4.0, rank=1, type="float", size=9, value=0.5, json=True),
        ev.RankExited(time=5.0, rank=1, exit_code=3),
    )
    found = cause(facts, output=["Exception ignored in: <function f>"])
    assert found is not None
    assert (found.id, found.certainty) == ("failed-after-result", "certain")
    assert "Exception ignored" in found.evidence[0]


def test_a_rank_that_somebody_ended() -> None:
    found = cause(gang(ev.RankExited(time=5.0, rank=1, exit_code=143, signal="SIGTERM")))
    assert found is not None
    assert found.id == "terminated"
    assert cause(gang(ev.RankExited(time=5.0, rank=1, exit_code=137, signal="SIGKILL"))) is None


def test_a_child_that_printed_what_a_missing_main_guard_does() -> None:
    ended = ev.RankExited(time=5.0, rank=1, exit_code=1)
    printed = ["  An attempt has been made to start a new process before the", "  current process …"]
    found = cause(gang(ended), output=printed)
    assert found is not None
    assert found.id == "main-guard-missing"
    assert cause(gang(*raised("ValueError", "x")), output=printed) is None


def hang(*texts: str) -> ev.CauseFound | None:
    stop = ev.StopRequested(
        time=6.0, by="limit", reason="no progress for 5 s", grace_s=1.0, exit_code=NoProgress.exit_code
    )
    taken = [ev.StacksTaken(time=6.0, rank=rank, text=text) for rank, text in enumerate(texts)]
    return cause(gang(*taken, stop, size=max(len(texts), 1)))


def stack(*frames: str) -> str:
    return "\n".join(["Current thread (most recent call first):", *(f"  File {each}" for each in frames)])


REDUCES = stack(
    '"/v/site-packages/torch/distributed/distributed_c10d.py", line 9 in all_reduce',
    '"/w/t.py", line 41 in f',
)
GATHERS = stack(
    '"/v/site-packages/torch/distributed/distributed_c10d.py", line 8 in all_gather',
    '"/w/t.py", line 50 in f',
)
QUEUES = stack('"/usr/lib/python3.11/queue.py", line 171 in get', '"/w/data.py", line 88 in batch')


def test_of_a_gang_that_hung_the_rank_outside_of_the_collective_is_named() -> None:
    found = hang(REDUCES, REDUCES, REDUCES, QUEUES)
    assert found is not None
    assert (found.id, found.certainty, found.rank) == ("rank-stuck", "likely", 3)
    assert found.text == "ranks 0-2 wait in all_reduce (t.py:41); rank 3 is in queue.get (data.py:88)"


def test_ranks_that_wait_in_different_collectives() -> None:
    found = hang(REDUCES, GATHERS, REDUCES)
    assert found is not None
    assert found.id == "collective-mismatch"
    assert "rank 1 waits in all_gather (t.py:50)" in found.text


def test_ranks_that_all_stand_in_one_place_and_ranks_without_stacks() -> None:
    found = hang(QUEUES, QUEUES)
    assert found is not None
    assert (found.id, found.certainty) == ("standstill", "likely")
    assert hang() is None
    alike = hang(REDUCES, REDUCES)
    assert alike is not None
    assert alike.id == "standstill"


LOADS = stack(
    '"/v/site-packages/torch/utils/data/dataloader.py", line 725 in __next__', '"/w/t.py", line 27 in f'
)
ENDS = (
    'Thread 0x1:\n  File "/usr/lib/python3.11/queue.py", line 171 in get\n  File "/w/log.py", line 9 in f\n\n'
    'Current thread (most recent call first):\n  File "/usr/lib/python3.11/threading.py", line 9 in _shutdown'
)


def test_sizes_that_differ_by_what_gloo_prints_before_it_aborts() -> None:
    printed = [
        "terminate called …",
        "  what():  [enforce fail at pair.cc:456] op.preamble.length <= op.nbytes. 40 vs 4.",
    ]
    found = cause(gang(ev.RankExited(time=5.0, rank=1, exit_code=134, signal="SIGABRT")), output=printed)
    assert found is not None
    assert (found.id, found.certainty) == ("collective-mismatch", "likely")
    assert "received 40 bytes where it expected 4" in found.evidence[0]
    assert cause(gang(*raised("KeyError", "1")), output=printed) is None


def test_a_collective_that_timed_out_is_told_with_what_torch_recorded() -> None:
    calls = [
        ev.CollectiveCall(group="default_pg", number=n, operation="all_reduce", sizes="[[4]]")
        for n in (36, 37)
    ]
    facts = gang(
        *(
            ev.RankRaised(
                time=5.0 - rank,
                rank=rank,
                kind="RuntimeError",
                message=TIMED_OUT,
                traceback="",
                collectives=(call,),
            )
            for rank, call in enumerate(calls)
        ),
        ev.RankExited(time=6.0, rank=1, exit_code=1),
    )
    found = cause(facts)
    assert found is not None
    assert found.id == "collective-timeout"
    assert (
        "torch recorded of rank 1: all_reduce of [[4]] was its call number 37 in default_pg" in found.evidence
    )
    assert "and of rank 0: all_reduce of [[4]] was its call number 36 in default_pg" in found.evidence


def test_a_group_that_was_made_for_more_ranks_than_there_are() -> None:
    found = of(
        "torch.distributed.DistStoreError", "wait timeout after 8000ms, keys: /default_pg/0//cpu//0/2", MAKING
    )
    assert found is not None
    assert found.id == "ranks-missing"
    assert "waited for rank 2, and the gang has 2 ranks" in found.text


def test_a_rank_that_is_not_of_the_group() -> None:
    found = of(
        "ValueError", "Global rank 0 is not part of group <torch.distributed.ProcessGroup object at 0x7>"
    )
    assert found is not None
    assert (found.id, found.certainty) == ("rank-outside-group", "certain")


def test_ranks_that_all_wait_for_their_loaders() -> None:
    found = hang(LOADS, LOADS)
    assert found is not None
    assert (found.id, found.certainty) == ("loader-stuck", "likely")
    stuck = hang(LOADS, REDUCES)
    assert stuck is not None
    assert (stuck.id, stuck.rank) == ("rank-stuck", 0)


def test_a_thread_that_keeps_a_finished_program_alive() -> None:
    found = hang(ENDS)
    assert found is not None
    assert (found.id, found.certainty, found.rank) == ("thread-keeps-alive", "likely", 0)
    assert found.evidence == ("a thread is in queue.get (log.py:9)",)


def test_a_limit_of_time_is_not_taken_for_a_hang() -> None:
    stop = ev.StopRequested(time=6.0, by="limit", reason="the time limit of 5 s", grace_s=1.0, exit_code=124)
    taken = [ev.StacksTaken(time=6.0, rank=rank, text=REDUCES) for rank in (0, 1)]
    assert cause(gang(*taken, stop)) is None


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([kind for kind, *_ in TELLING]),
    st.text(max_size=300)
    | st.sampled_from([message for _, message, *_ in TELLING]).map(lambda m: m[: len(m) // 2]),
)
def test_no_message_breaks_a_rule(kind: str, message: str) -> None:
    of(kind, message)


@pytest.mark.parametrize("unit", ["a", " ", "(", "x.so", "Rank 1 is running collective: ", "port: "])
def test_a_message_as_long_as_one_may_be_is_judged_at_once(unit: str) -> None:
    """Patterns are bounded: none takes time that grows faster than the message."""
    message = unit * (8192 // len(unit))
    for kind in {kind for kind, *_ in TELLING}:
        of(kind, message)
