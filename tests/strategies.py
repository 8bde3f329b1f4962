"""Values of our frozen dataclasses, found by their annotations, for tests by property."""

from __future__ import annotations

import dataclasses
import types
import typing
from enum import Enum
from typing import Any

from hypothesis import strategies as st

from launcher.spec.job import JobSpec, SparkSpec, Target

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def values(hint: Any, *, name: str = "") -> st.SearchStrategy[Any]:
    """Values of an annotation, without those that a dataclass would refuse."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        low, high = args[1].low, args[1].high
        return st.integers(low, high) if args[0] is int else st.floats(low, high)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*(st.none() if a is type(None) else values(a) for a in args))
    if origin is tuple:
        if args[-1] is ...:
            return st.lists(values(args[0]), max_size=3).map(tuple)
        return st.tuples(*map(values, args))
    if origin is not None:
        return st.dictionaries(values(args[0]), values(args[1]), max_size=3)
    if hint is Any:
        return JSON
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    if dataclasses.is_dataclass(hint):
        return instances(hint)  # type: ignore[arg-type]
    return {
        int: st.integers(1 - 2**63, 2**63 - 1),
        float: st.floats(allow_nan=False),
        bool: st.booleans(),
        str: st.text(max_size=12),
    }[hint]


def instances(cls: type[Any]) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = {f.name: values(hints[f.name]) for f in dataclasses.fields(cls)}
    path = st.text(st.characters(exclude_characters="\0"), max_size=12)
    if cls is JobSpec:
        name = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=6)
        text = st.text(st.characters(exclude_characters="\0"), max_size=8)
        fields |= {
            "num_processes": st.integers(1, 9999).map(lambda n: 2 * n),
            "min_processes": st.none() | st.integers(1, 2),
            "roles": st.dictionaries(name, st.just(1), max_size=1),
            "gpus_per_rank": st.integers(1, 8),
            "ranks_per_gpu": st.just(1),  # more is for ranks with one GPU
            "gpus_per_task": st.none(),
            "max_restarts": st.integers(0, 9),
            "start_timeout_s": st.floats(0, 1e6),
            "workdir": path,
            "python": path,
            "env": st.dictionaries(name, text, max_size=3),
            "grace_s": st.floats(0, 1e6),
            "timeout_s": st.none() | st.floats(0, 1e6),
            "no_progress_timeout_s": st.none() | st.floats(0, 1e6),
            "sample_s": st.floats(0.01, 100),
            "prediction": st.none(),  # it wants another mode; test_prediction has some
        }
    if cls is Target:
        fields |= {"source": path, "name": path}
    if cls is SparkSpec:
        fields |= {
            "master": st.just(""),
            "remote": st.just(""),
            "spool": path,
            "lost_after_s": st.floats(0.01, 1e6),
        }
    return st.builds(cls, **fields)
