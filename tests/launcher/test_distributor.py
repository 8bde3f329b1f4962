"""What `Distributor` refuses when it is made, in one sentence, and which values it takes as they come."""

from __future__ import annotations

import math
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from launcher.distributor import Distributor
from launcher.errors import LauncherError, RunNotFound, SpecError
from launcher.spec.job import JobSpec, SparkSpec, Target, TargetKind
from launcher.spec.options import options_of


def made(*args: Any, **options: Any) -> JobSpec:
    """The request of a distributor with these options."""
    return JobSpec(Target(TargetKind.SCRIPT, "train.py"), **Distributor(*args, **options)._options)


@pytest.mark.parametrize(
    ("args", "options", "said"),
    [
        ((0,), {}, "the number of processes must be at least 1, not 0"),
        ((-3,), {}, "the number of processes must be at least 1, not -3"),
        (("2",), {}, "num_processes takes a whole number, not '2'"),
        (("2:4",), {}, "num_processes takes a whole number, not '2:4'"),
        ((True,), {}, "num_processes takes a whole number, not True"),
        ((np.True_,), {}, "num_processes takes a whole number, not "),
        ((2.0,), {}, "num_processes takes a whole number, not 2.0"),
        ((None,), {}, "num_processes takes a whole number, not None"),
        ((np.array([2, 3]),), {}, "num_processes takes a whole number, not array([2, 3])"),
        ((2, "clusterr"), {}, "the mode must be one of local, cluster, connect, not 'clusterr'"),
        ((2, 3), {}, "the mode must be one of local, cluster, connect, not 3"),
        ((2, ["local"]), {}, "the mode must be one of local, cluster, connect, not ['local']"),
        ((2,), {"gpu": "yes"}, "gpu takes True, False or None, not 'yes'"),
        ((2,), {"gpu": 1}, "gpu takes True, False or None, not 1"),
        ((2,), {"env": 3}, "env takes a table of names and texts, not 3"),
        ((2,), {"env": "A=1"}, "env takes a table of names and texts, not 'A=1'"),
        ((2,), {"env": {"A": 1}}, "the environment variable A must be text without NUL, not 1"),
        ((2,), {"max_restarts": 1.5}, "max_restarts takes a whole number, not 1.5"),
        ((2,), {"max_restarts": -1}, "the number of restarts must be 0 or more, not -1"),
        ((2,), {"min_processes": 3}, "the least number of processes must be 1 to 2, not 3"),
        ((2,), {"timeout_s": math.nan}, "the time limit must be 0 or more seconds, not nan"),
        ((2,), {"timeout_s": "60"}, "timeout_s takes a number of seconds, not '60'"),
        ((2,), {"timeout_s": False}, "timeout_s takes a number of seconds, not False"),
        ((2,), {"grace_s": None}, "grace_s takes a number of seconds, not None"),
        ((2,), {"grace_s": 10**400}, "grace_s takes a number of seconds, not 1000"),
        (
            (2,),
            {"sample_s": np.float64("nan")},
            "the sample interval must be more than 0 seconds, not nan",
        ),
        ((2,), {"ranks_per_gpu": 0}, "a GPU can have 1 rank or more, not 0"),
        ((2,), {"ranks_per_gpu": None}, "ranks_per_gpu takes a whole number, not None"),
        ((2,), {"ranks_per_gpu": 2, "gpus_per_rank": 2}, "a rank cannot have 2 GPUs and share one"),
        ((3, "cluster"), {"ranks_per_gpu": 2}, "3 ranks cannot be divided among tasks of 2 ranks each"),
        ((2,), {"name": 7}, "name takes a text, not 7"),
        ((2,), {"workdir": 7}, "workdir takes a path, not 7"),
        ((2,), {"workdir": b"/tmp"}, "workdir takes a path, not b'/tmp'"),
        ((2,), {"py_files": "lib.zip"}, "py_files takes a list of paths, not 'lib.zip'"),
        ((2,), {"py_files": [1]}, "py_files takes a list of paths, not [1]"),
        (
            (2,),
            {"spark": "spark://host:7077"},
            "spark takes a Spark session or a SparkSpec, not 'spark://host",
        ),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_at_once(
    args: tuple[Any, ...], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011  the sentence is compared below
        Distributor(*args, **options)

    assert isinstance(refused.value, SpecError)
    assert 2 == refused.value.exit_code
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("option", [o for o in options_of(JobSpec) if len(o.path) == 1], ids=lambda o: o.name)
def test_no_option_takes_just_anything(option: Any) -> None:
    anything: dict[str, Any] = {option.name: object()}

    with pytest.raises(SpecError):
        Distributor(**anything)


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_a_value_without_a_repr_is_refused_all_the_same() -> None:
    with pytest.raises(SpecError, match=r"^env takes a table of names and texts, not <Unshowable instance"):
        Distributor(2, env=Unshowable())  # type: ignore[arg-type]


def test_a_long_value_makes_no_long_sentence() -> None:
    with pytest.raises(SpecError) as refused:
        Distributor(2, gpu="x" * 100_000)  # type: ignore[arg-type]

    assert len(str(refused.value)) < 200


def test_ranks_may_share_gpus() -> None:
    assert (2, 2) == (
        made(4, ranks_per_gpu=2).ranks_per_gpu,
        made(4, "cluster", ranks_per_gpu=2).ranks_per_task,
    )
    assert 1 == made(4).ranks_per_gpu


def test_numbers_of_numpy_are_numbers() -> None:
    spec = made(
        np.int64(4),
        min_processes=np.uint8(2),
        gpu=np.False_,
        timeout_s=np.float32(2.5),
        grace_s=np.array(3),
        max_restarts=np.int32(1),
        name=np.str_("a"),
    )
    found = (spec.num_processes, spec.min_processes, spec.gpu, spec.timeout_s, spec.grace_s)

    assert ((4, 2, False, 2.5, 3), [int, int, bool, float, int]) == (found, list(map(type, found)))
    assert (1, int, str) == (spec.max_restarts, type(spec.max_restarts), type(spec.name))


def test_other_numbers_and_paths_are_taken_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = made(2, timeout_s=Fraction(1, 2), workdir=Path("a"), py_files=(Path("b.py"), "c.py"), env=None)

    assert (0.5, str(tmp_path / "a"), ("b.py", "c.py"), {}) == (
        spec.timeout_s,
        spec.workdir,
        spec.py_files,
        spec.env,
    )
    assert os.fspath(tmp_path) == made(2, workdir=None).workdir
    assert "spark://h:1" == Distributor(2, spark=SparkSpec("spark://h:1"))._options["spark"].master


def test_a_bad_request_is_a_value_error_and_one_of_ours() -> None:
    assert issubclass(SpecError, ValueError)
    assert issubclass(SpecError, LauncherError)
    assert issubclass(RunNotFound, ValueError)
    assert ("no (yes)", 2) == (str(SpecError("no", hint="yes")), SpecError("no").exit_code)
