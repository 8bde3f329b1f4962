"""Causes that only a cluster has, from what was recorded; and that a difference alone is none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from launcher.backends.spark.failures import read_failure
from launcher.channel.network import Way
from launcher.diagnosis.causes import Evidence, find_cause
from launcher.errors import CannotPlace
from launcher.placement.refusals import HostsCutOff, VersionsDiffer
from launcher.placement.topology import choose_address
from launcher.spec.places import Assignment
from launcher.state import events as ev
from launcher.state.fold import fold_all
from launcher.state.outcome_rules import verdict

TEXTS = Path(__file__).parents[2] / "spark_texts"
SITE = "/opt/env/lib/python3.11/site-packages"
HERE = {
    "numpy": f"{SITE}/numpy/__init__.py",
    "numpy._core": f"{SITE}/numpy/_core/__init__.py",
    "einops": f"{SITE}/einops/__init__.py",
    "google": f"{SITE}/google",  # a namespace package
    "google.cloud": f"{SITE}/google/cloud",
    "google.cloud.storage": f"{SITE}/google/cloud/storage/__init__.py",
    "helpers": "/home/ada/helpers.py",
    "project.steps": "/home/ada/project/steps.py",
}


def module_here(name: str) -> ModuleSpec | None:
    """What an import on this machine would find."""
    if (file := HERE.get(name)) is None:
        return None
    found = ModuleSpec(name, None, origin=file if file.endswith(".py") else None)
    if not file.endswith(".py") or file.endswith("__init__.py"):
        found.submodule_search_locations = [file.removesuffix("/__init__.py")]
    return found


@dataclass(frozen=True)
class HostFacts:
    """What an agent said of its host."""

    name: str
    python: str = "3.11.7"
    torch: str = "2.13.0"
    cuda: str = "12.8"
    offset: float = 0.0
    error: float = 0.001


A, B = HostFacts("a"), HostFacts("b")


def failure(
    *errors: tuple[int, str, str],
    hosts: tuple[HostFacts, ...] = (A, B),
    torch_here: str = "2.13.0",
    own_python: bool = False,
) -> ev.CauseFound | None:
    """The cause of a gang of one rank a host, in which these ranks raised something."""
    ranks = tuple(
        Assignment(rank, len(hosts), 0, 1, rank, len(hosts), agent=rank, host=each.name)
        for rank, each in enumerate(hosts)
    )
    state = fold_all(
        [
            ev.RunSubmitted(time=0.0, name="t", target="t", mode="cluster", num_processes=len(hosts)),
            ev.OriginFound(time=0.1, python="3.11.7", packages={"torch": torch_here}),
            *(
                ev.AgentJoined(
                    time=0.5, agent=agent, host=each.name, pid=1, python=each.python, torch=each.torch,
                    cuda=each.cuda, clock_offset=each.offset, clock_error=each.error,
                )
                for agent, each in enumerate(hosts)
            ),
            ev.GangPlaced(time=1.0, ranks=ranks),
            *(
                ev.RankRaised(time=5.0 + rank, rank=rank, kind=kind, message=text, traceback=text)
                for rank, kind, text in errors
            ),
            *(ev.RankExited(time=9.0, rank=rank, exit_code=1) for rank, _, _ in errors),
        ]
    )  # fmt: skip
    evidence = Evidence(module_here=module_here, own_python=own_python)
    return find_cause(state, evidence, verdict(state, now=10.0))


OURS = ("version-skew", "module-missing-on-executors", "clock-skew")


def assert_not_ours(found: ev.CauseFound | None) -> None:
    """Another rule may recognise it, but it is not for what differs between hosts."""
    assert found is None or found.id not in OURS


NCCL = (
    "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, invalid usage (run with "
    "NCCL_DEBUG=WARN for details), NCCL version 2.27.5\nncclInvalidUsage: This usually reflects invalid "
    "usage of NCCL library.\nLast error:\n"
    "Mismatched NCCL version detected : rank 1 version 22705 rank 0 version 22602"
)


@pytest.mark.parametrize(
    ("kind", "message", "words"),
    [
        ("RuntimeError", "the target was pickled by Python 3.12, and this rank runs Python 3.11",
         "rank 1 runs Python 3.11, and its function was pickled by Python 3.12"),
        ("ValueError", "unsupported pickle protocol: 5", "protocol 5, which needs a newer Python"),
        ("ImportError", "bad magic number in 'train': b'\\xcb\\r\\r\\n'", "compiled by another version"),
        ("torch.distributed.DistBackendError", NCCL, "NCCL is 2.27.5 in rank 1 and 2.26.2 in rank 0"),
    ],
)  # fmt: skip
def test_a_message_that_names_the_versions_leaves_no_doubt(kind: str, message: str, words: str) -> None:
    found = failure((1, kind, message))
    assert found is not None
    assert ("version-skew", "certain", 1) == (found.id, found.certainty, found.rank)
    assert words in found.text


OLD = replace(B, torch="2.4.1+cu121", cuda="12.1")
LACKS = ("AttributeError", "module 'torch.distributed' has no attribute 'batch_isend_irecv_all'")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        LACKS,
        ("ImportError", "cannot import name 'StatefulSampler' from 'torch.utils.data' (/opt/…/__init__.py)"),
        ("ModuleNotFoundError", "No module named 'torch.nn.attention.varlen'"),
        (
            "AttributeError",
            "Can't get attribute '_rebuild_device_tensor' on <module 'torch._utils' from '/x'>",
        ),
    ],
)
def test_what_an_older_torch_lacks_on_one_host(kind: str, message: str) -> None:
    found = failure((1, kind, message), hosts=(A, OLD))
    assert found is not None
    assert ("version-skew", "likely", 1) == (found.id, found.certainty, found.rank)
    assert "torch is 2.4.1+cu121 on b and 2.13.0 on a" in found.text
    assert "torch's CUDA is 12.8 on a; 12.1 on b" in found.evidence
    assert "torch is 2.13.0 on a, this machine; 2.4.1+cu121 on b" in found.evidence


def test_what_the_executors_torch_lacks_and_this_machine_s_has() -> None:
    found = failure((0, *LACKS), hosts=(replace(OLD, name="a"), OLD))
    assert found is not None
    assert "torch is 2.4.1+cu121 on a and 2.13.0 on this machine" in found.text


@pytest.mark.parametrize(
    "hosts",
    [
        (A, B),
        (A, replace(B, torch="2.13.0+cu128")),
        (A, replace(B, torch="")),
        (A, replace(B, python="3.11.9")),
    ],
)
def test_equal_versions_explain_nothing(hosts: tuple[HostFacts, ...]) -> None:
    assert_not_ours(failure((1, *LACKS), hosts=hosts))


def test_what_fails_with_both_versions_is_not_for_their_difference() -> None:
    assert_not_ours(failure((1, *LACKS), (0, *LACKS), hosts=(A, OLD)))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("AttributeError", "'Model' object has no attribute 'torch'"),
        ("AttributeError", "module 'train' has no attribute 'torch'"),
        ("ImportError", "cannot import name 'torch' from 'train' (/home/ada/train.py)"),
        ("ValueError", "found: unsupported pickle protocol: 5"),
        ("mine.ImportError", "bad magic number in 'train'"),
        ("RuntimeError", "the size of tensor a (3) must match the size of tensor b (4)"),
        ("ModuleNotFoundError", "No module named 'torch'"),
    ],
)
def test_what_no_version_of_torch_explains(kind: str, message: str) -> None:
    assert_not_ours(failure((1, kind, message), hosts=(A, OLD)))


def test_the_versions_of_agents_say_nothing_of_ranks_with_their_own_python() -> None:
    error = (1, "AttributeError", "module 'torch' has no attribute 'later'")
    found = failure(error, hosts=(A, OLD))
    assert found is not None
    assert found.id == "version-skew"
    assert failure(error, hosts=(A, OLD), own_python=True) is None


def test_code_of_another_python() -> None:
    found = failure(
        (1, "TypeError", "code expected at most 16 arguments, got 18"), hosts=(A, replace(B, python="3.10.2"))
    )
    assert found is not None
    assert "Python is 3.10.2 on b and 3.11.7 on a" in found.text


def test_a_package_that_lacks_a_part_there() -> None:
    found = failure((1, "ModuleNotFoundError", "No module named 'numpy._core'"))
    assert found is not None
    assert ("version-skew", "likely") == (found.id, found.certainty)
    assert "numpy on b is another version than on this machine: it has no numpy._core" == found.text


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("helpers", "--py-files /home/ada/helpers.py has it travel with the run"),
        ("project.steps", "--py-files /home/ada/project/steps.py has it travel with the run"),
        ("einops", "install einops in the Python that executors run"),
        (
            "google.cloud.storage",
            "install the package that has google.cloud.storage in the Python that executors run",
        ),
    ],
)
def test_a_module_that_this_machine_has(name: str, remedy: str) -> None:
    found = failure((1, "ModuleNotFoundError", f"No module named '{name}'"))
    assert found is not None
    assert ("module-missing-on-executors", "certain", 1) == (found.id, found.certainty, found.rank)
    assert f"b has no module {name}, which rank 1 imports; this machine has it" == found.text
    place = HERE[name].removesuffix("/__init__.py")
    assert f"this machine has it: {place}" in found.evidence
    assert remedy == found.remedy[0]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("ModuleNotFoundError", "No module named 'nowhere'"),
        ("ValueError", "No module named 'helpers'"),
        ("ModuleNotFoundError", "the plugin says: No module named 'helpers'"),
        ("ModuleNotFoundError", "No module named 'numpy._core'; 'numpy' is not a package"),
    ],
)
def test_a_module_that_nobody_has_or_nobody_imports(kind: str, message: str) -> None:
    assert_not_ours(failure((1, kind, message)))


EARLY = (
    "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate is not yet valid (_ssl.c:1006)"
)
LATE = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired (_ssl.c:1006)"
TLS = "ssl.SSLCertVerificationError"
S3 = (
    "An error occurred (RequestTimeTooSkewed) when calling the PutObject operation: The difference between "
    "the request time and the current time is too large."
)


@pytest.mark.parametrize(
    ("kind", "message", "offset", "words"),
    [
        (TLS, EARLY, -7200.0, "the clock of b is 7200.0 s behind that of a"),
        (TLS, LATE, 86400.0, "the clock of b is 86400.0 s ahead of that of a"),
        ("jwt.exceptions.ImmatureSignatureError", "The token is not yet valid (iat)", -90.0, "90.0 s behind"),
        ("jwt.exceptions.ExpiredSignatureError", "Signature has expired", 90.0, "90.0 s ahead of"),
        ("botocore.exceptions.ClientError", S3, 1200.0, "1200.0 s ahead of"),
        ("botocore.exceptions.ClientError", S3, -1200.0, "1200.0 s behind"),
    ],
)
def test_a_clock_that_is_wrong_in_the_way_that_the_message_tells(
    kind: str, message: str, offset: float, words: str
) -> None:
    found = failure((1, kind, message), hosts=(A, replace(B, offset=offset)))
    assert found is not None
    assert ("clock-skew", "likely", 1) == (found.id, found.certainty, found.rank)
    assert words in found.text
    assert f"clocks beside that of this machine: a +0.000 s, b {offset:+.3f} s" in found.evidence


@pytest.mark.parametrize(
    ("message", "offset", "error"),
    [
        (EARLY, 7200.0, 0.001),  # it would have been late, not early
        (LATE, -7200.0, 0.001),
        (EARLY, -0.5, 0.001),
        (EARLY, -3.0, 2.5),  # nobody knows the clock so well
        ("the model is not yet valid", -7200.0, 0.001),
        ("connection reset", -7200.0, 0.001),
    ],
)
def test_a_clock_that_does_not_explain_it(message: str, offset: float, error: float) -> None:
    assert_not_ours(failure((1, TLS, message), hosts=(A, replace(B, offset=offset, error=error))))


def test_a_certificate_that_another_host_has_made_too_early() -> None:
    """The clock of the rank that complains is right; who made the certificate is ahead of it."""
    found = failure((0, TLS, EARLY), hosts=(A, replace(B, offset=600.0)))
    assert found is not None
    assert "the clock of a is 600.0 s behind that of b" == found.text


STORE = "torch.distributed.DistStoreError"
NETWORK = "torch.distributed.DistNetworkError"
WAITED = "wait timeout after 6000ms, keys: /default_pg/0//cpu//0/1"
DIALLED = "The client socket has timed out after 6000ms while trying to connect to (10.0.0.7, 35857)."


def test_a_rank_that_another_one_waited_for_could_not_connect() -> None:
    found = failure((0, STORE, WAITED), (1, NETWORK, DIALLED))
    assert found is not None
    assert ("master-unreachable", "likely", 1) == (found.id, found.certainty, found.rank)
    assert "rank 1 on b could not connect to 10.0.0.7:35857, where rank 0 waited for it" == found.text
    assert f"rank 0 on a: {WAITED}" in found.evidence
    assert "firewalls" in found.remedy[0]


@pytest.mark.parametrize(
    "errors",
    [
        [(0, STORE, WAITED)],
        [(0, STORE, WAITED), (1, "ValueError", DIALLED)],
        [(0, "ValueError", WAITED), (1, NETWORK, DIALLED)],
    ],
)
def test_a_wait_that_nobody_explains(errors: list[tuple[int, str, str]]) -> None:
    found = failure(*errors)
    assert found is None or found.id != "master-unreachable"


def unplaced(error: CannotPlace) -> ev.CauseFound | None:
    """The cause of a run that ended with this error before it had ranks."""
    state = fold_all(
        [
            ev.RunSubmitted(time=0.0, name="t", target="t", mode="cluster", num_processes=2),
            ev.AgentJoined(time=0.5, agent=0, host="a", pid=1, python="3.11.7"),
        ]
    )
    return find_cause(state, Evidence(refusal=error), verdict(state, now=9.0, failure=error))


def test_spark_refuses_a_python_that_is_not_the_driver_s() -> None:
    error = read_failure((TEXTS / "python_version.txt").read_text(), time=1.0, tasks=2).error
    assert isinstance(error, VersionsDiffer)
    found = unplaced(error)
    assert found is not None
    assert ("version-skew", "certain", None) == (found.id, found.certainty, found.rank)
    assert "Spark refuses to mix them" in found.text
    assert "a: 3.11.7" in found.evidence
    assert "PYSPARK_PYTHON" in found.remedy[0]


ONE, OTHER = "10.0.0.7", "172.16.0.7"
NOT_BY_ALL = f"{ONE} not from c; {OTHER} not from b"


@pytest.mark.parametrize(
    ("reached", "text"),
    [
        ({0: {ONE: Way(), OTHER: Way()}, 1: {}},
         f"b and c cannot reach a, where rank 0 would listen, at {ONE} or {OTHER}"),
        ({}, "a, where rank 0 would listen, has no address that other hosts could reach"),
        ({0: {ONE: Way(), OTHER: Way()}, 1: {ONE: Way()}, 2: {OTHER: Way()}},
         f"no address of a, where rank 0 would listen, is reached by all: {NOT_BY_ALL}"),
    ],
)  # fmt: skip
def test_hosts_that_could_not_reach_rank_0_before_the_start(
    reached: dict[int, dict[str, Way]], text: str
) -> None:
    with pytest.raises(HostsCutOff) as raised:
        choose_address(list(reached.get(0, ())), {1: {}, 2: {}, **reached}, dict(enumerate("abc")), first=0)
    found = unplaced(raised.value)
    assert found is not None
    assert ("master-unreachable", "certain", text) == (found.id, found.certainty, found.text)


def test_a_function_that_was_pickled_by_another_python_than_the_hosts_have() -> None:
    found = unplaced(VersionsDiffer("the function was pickled by Python 3.12, and there is Python 3.11 on a"))
    assert found is not None
    assert ("version-skew", "certain") == (found.id, found.certainty)


def test_another_reason_not_to_be_placed_is_no_such_cause() -> None:
    assert unplaced(CannotPlace("needs 2 slots at once; the cluster has 1")) is None
