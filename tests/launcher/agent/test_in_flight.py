"""Which exception is leaving a stack: told from one that was caught for good, by the code that is to come."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import pytest

from launcher.agent.raising import exception_in_flight

Look = Callable[[], None]


class Manager:
    def __init__(self, look: Look) -> None:
        self.look = look

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self.look()

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0)
        self.look()


@contextlib.contextmanager
def generator(look: Look) -> Iterator[None]:
    try:
        yield
    finally:
        look()


def in_finally(look: Look) -> None:
    try:
        raise ValueError
    finally:
        for _ in range(2):
            look()


def in_finally_after_an_error_of_its_own(look: Look) -> None:
    try:
        raise ValueError
    finally:
        with contextlib.suppress(KeyError):
            raise KeyError
        try:
            int("x")
        except TypeError:
            pass
        except ValueError:
            look()
        look()


def in_an_except_that_raises_again(look: Look) -> None:
    try:
        raise ValueError
    except Exception:
        look()
        raise


def in_an_except_that_raises_another(look: Look) -> None:
    try:
        raise ValueError
    except Exception as error:
        look()
        raise KeyError from error


def in_exit(look: Look) -> None:
    with Manager(look):
        raise ValueError


def in_a_generators_finally(look: Look) -> None:
    with generator(look):
        raise ValueError


def in_aexit(look: Look) -> None:
    async def main() -> None:
        async with Manager(look):
            raise ValueError

    asyncio.run(main())


def in_a_finally_within_an_except(look: Look) -> None:
    def train() -> None:
        try:
            raise ValueError
        finally:
            look()

    try:
        raise FileNotFoundError
    except FileNotFoundError:
        train()


def in_the_finally_of_a_later_round(look: Look) -> None:
    for turn in range(3):
        try:
            if turn == 1:
                raise ValueError
        finally:
            if turn == 1:
                look()


LEAVING = (
    in_finally, in_finally_after_an_error_of_its_own, in_an_except_that_raises_again,
    in_an_except_that_raises_another, in_exit, in_a_generators_finally, in_aexit,
    in_a_finally_within_an_except, in_the_finally_of_a_later_round,
)  # fmt: skip


def nothing_at_all(look: Look) -> None:
    look()


def a_finally_that_nothing_came_to(look: Look) -> None:
    try:
        pass
    finally:
        look()


def a_finally_that_returns(look: Look) -> None:
    try:
        raise ValueError
    finally:
        look()
        return  # noqa: B012  it is the case


def an_except(look: Look) -> None:
    try:
        raise ValueError
    except ValueError:
        look()


def an_except_that_may_raise_again(look: Look) -> None:
    try:
        raise ValueError
    except ValueError:
        look()
        if sys.argv == ["never"]:
            raise


def training_in_an_except(look: Look) -> None:
    def train() -> None:
        try:
            pass
        finally:
            look()
        with Manager(look):
            pass

    try:
        raise FileNotFoundError
    except FileNotFoundError:
        train()


def after_a_suppression(look: Look) -> None:
    with contextlib.suppress(ValueError):
        raise ValueError
    look()


def a_loop_that_goes_on(look: Look) -> None:
    for _ in range(2):
        try:
            raise ValueError
        except ValueError:
            look()
            continue


def an_except_of_a_group(look: Look) -> None:
    try:
        raise ExceptionGroup("two", [ValueError()])
    except* ValueError:
        look()


def leaving_on_purpose(look: Look) -> None:
    try:
        sys.exit(3)
    finally:
        look()


STAYING = (
    nothing_at_all, a_finally_that_nothing_came_to, a_finally_that_returns, an_except,
    an_except_that_may_raise_again, training_in_an_except, after_a_suppression, a_loop_that_goes_on,
    an_except_of_a_group, leaving_on_purpose,
)  # fmt: skip


def seen(case: Callable[[Look], None]) -> list[tuple[BaseException, TracebackType | None] | None]:
    found: list[tuple[BaseException, TracebackType | None] | None] = []

    def look() -> None:
        found.append(exception_in_flight(sys._getframe(1)))

    with contextlib.suppress(Exception, SystemExit):
        case(look)
    assert found
    return found


@pytest.mark.parametrize("case", LEAVING, ids=lambda case: case.__name__)
def test_what_leaves_is_seen(case: Callable[[Look], None]) -> None:
    assert {ValueError} == {type(found[0]) for found in seen(case) if found is not None}
    assert None not in seen(case)


@pytest.mark.parametrize("case", STAYING, ids=lambda case: case.__name__)
def test_what_was_caught_or_left_on_purpose_is_not(case: Callable[[Look], None]) -> None:
    assert {None} == set(seen(case))


def test_its_traceback_goes_from_the_bottom_of_the_stack_to_where_it_was_raised() -> None:
    found = seen(in_a_finally_within_an_except)[0]
    assert found is not None
    names: list[str] = []
    tb: Any = found[1]
    while tb is not None:
        names.append(tb.tb_frame.f_code.co_name)
        tb = tb.tb_next

    here = "test_its_traceback_goes_from_the_bottom_of_the_stack_to_where_it_was_raised"
    assert [here, "seen", "in_a_finally_within_an_except", "train"] == names[names.index(here) :]
