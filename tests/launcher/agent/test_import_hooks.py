"""What is done when a module is imported: once, on the module itself, and never to its import's harm."""

from __future__ import annotations

import importlib
import sys
import types
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from launcher.agent import import_hooks


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(import_hooks, "_waiting", {})
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "wheel").mkdir()
    (tmp_path / "wheel" / "__init__.py").write_text("from .spokes import turn\n")
    (tmp_path / "wheel" / "spokes.py").write_text("def turn(n): return n + 1\nclass Hub:\n    size = 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    return "wheel.spokes"


def test_it_is_done_once_the_module_is_whole_and_before_others_take_from_it(package: str) -> None:
    seen: list[str] = []

    def act(module: types.ModuleType) -> None:
        seen.append(module.__name__)
        import_hooks.around(module, "turn", after=lambda value, args: seen.append(f"{args} {value}"))

    import_hooks.when_imported(package, act)
    wheel = importlib.import_module("wheel")

    assert 3 == wheel.turn(2)
    assert [package, "(2,) 3"] == seen
    importlib.import_module(package)
    assert 2 == len(seen)


def test_a_module_that_is_there_already_is_not_waited_for(package: str) -> None:
    importlib.import_module(package)
    seen: list[str] = []
    import_hooks.when_imported(package, lambda module: seen.append(module.__name__))

    assert [package] == seen


def test_several_may_wait_for_one(package: str) -> None:
    seen: list[int] = []
    for number in range(3):
        import_hooks.when_imported(package, partial(_note, seen, number))
    importlib.import_module(package)

    assert [0, 1, 2] == seen
    assert 1 == sum(isinstance(finder, import_hooks._Finder) for finder in sys.meta_path)


def _note(seen: list[int], number: int, _: types.ModuleType) -> None:
    seen.append(number)


def test_a_hook_that_fails_harms_neither_the_import_nor_a_call(package: str) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a hook's own")

    import_hooks.when_imported(package, fail)
    import_hooks.when_imported(package, lambda m: import_hooks.around(m, "turn", after=fail))
    import_hooks.when_imported(package, lambda m: import_hooks.around(m, "missing", after=fail))
    import_hooks.when_imported(package, lambda m: import_hooks.around(m.Hub, "size", after=fail))

    assert 2 == importlib.import_module("wheel").turn(1)


class _Shy:
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise FutureWarning("is deprecated")


def test_modules_that_had_a_function_before_get_each_hook(package: str) -> None:
    wheel, seen = importlib.import_module("wheel"), list[str]()
    vars(wheel)["shy"] = _Shy()
    import_hooks.note_holders(package)
    unaware = types.ModuleType("unaware")
    unaware.__dict__["turn"] = wheel.turn
    sys.modules["unaware"] = unaware  # imported later than it may be
    for name in ("one", "two"):
        hook = partial(lambda name, value, args: seen.append(f"{name} {value}"), name)
        import_hooks.around(importlib.import_module(package), "turn", after=hook)

    assert 3 == wheel.turn(2) == importlib.import_module(package).turn(2)
    assert ["one 3", "two 3"] * 2 == seen
    assert 3 == unaware.__dict__["turn"](2)
    assert 4 == len(seen)  # only the modules that were known are looked at


def test_holders_of_a_module_that_is_not_imported_are_not_known(package: str) -> None:
    import_hooks.note_holders(package)
    wheel, seen = importlib.import_module("wheel"), list[object]()
    import_hooks.around(importlib.import_module(package), "turn", after=lambda value, _: seen.append(value))

    assert 3 == wheel.turn(2)
    assert [3] == seen


def test_a_module_that_does_not_exist_is_missing_as_ever() -> None:
    import_hooks.when_imported("no_such_wheel", lambda _: None)

    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_wheel'"):
        importlib.import_module("no_such_wheel")


def test_a_zip_s_other_modules_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "cart.zip", "w") as file:
        for name in ("axle", "yoke"):
            file.writestr(f"{name}.py", "")
    monkeypatch.syspath_prepend(tmp_path / "cart.zip")
    seen: list[str] = []
    import_hooks.when_imported("axle", lambda module: seen.append(module.__name__))
    for name in ("axle", "yoke"):
        importlib.import_module(name)

    assert ["axle"] == seen
