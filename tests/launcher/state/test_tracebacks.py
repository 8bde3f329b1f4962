"""The exception that another one quotes, by the real messages of PyTorch and Ray."""

from __future__ import annotations

import pytest

from launcher.state.outcome_rules import SENTENCE, reason_in
from launcher.state.tracebacks import DIRECT, chain, message_in, quoted

FRAMES = (
    '  File "/home/a/train.py", line 5, in f\n    step()\n    ^^^^^^\n  File "/home/a/train.py", line 9\n'
)
LOADER = (
    "Caught ValueError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
    f"{FRAMES}    data = [self.dataset[i] for i in indices]\nValueError: sample 0 is empty\n"
)
SPAWN = (
    "\n\n-- Process 0 terminated with the following error:\nTraceback (most recent call last):\n"
    f"{FRAMES}ValueError: bad rank 0\n"
)
# the rest of a line of source is missing, as in Ray's own text
TASK = (
    f"\x1b[36mray::f()\x1b[39m (pid=9, ip=127.0.0.2)\n{FRAMES}           ^^^^^^^^\n"
    f"ray.exceptions.RayTaskError(ValueError): \x1b[36mray::f()\x1b[39m (pid=10, ip=127.0.0.2)\n{FRAMES}"
    "ValueError: the learning rate is negative\nsecond line"
)
TRAIN = (
    "Training failed due to worker errors:\n[Rank 0,1 Error Snippet]:\nTraceback (most recent call last):\n"
    f"{FRAMES}ValueError: the learning rate is negative\n"
)
DATA = (
    f"\x1b[36mray::Map()\x1b[39m (pid=9, ip=127.0.0.2)\n{FRAMES}ZeroDivisionError: division by zero\n\n"
    f"{DIRECT}\n\n\x1b[36mray::Map()\x1b[39m (pid=9, ip=127.0.0.2)\n"
    "ray.exceptions.UserCodeException: UDF failed to process a data block."
)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (LOADER, "Caught ValueError in DataLoader worker process 0: ValueError: sample 0 is empty"),
        (SPAWN, "-- Process 0 terminated with the following error: ValueError: bad rank 0"),
        (TASK, "ray::f() (pid=9, ip=127.0.0.2): ValueError: the learning rate is negative"),
        (TRAIN, "Training failed due to worker errors: ValueError: the learning rate is negative"),
        (DATA, "ray::Map() (pid=9, ip=127.0.0.2): ZeroDivisionError: division by zero"),
        (f"Traceback (most recent call last):\n{FRAMES}KeyError: 3", "KeyError: 3"),
        ("no\nmore", "no"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("", ""),
    ],
)
def test_a_reason_has_the_exception_that_a_message_quotes(message: str, reason: str) -> None:
    assert reason == reason_in(message)


def test_a_long_first_line_leaves_room_for_the_cause() -> None:
    reason = reason_in(f"{'x' * 900}\n{FRAMES}KeyError: 3")
    assert len(reason) < SENTENCE
    assert reason.endswith("…: KeyError: 3")
    assert len(reason_in(f"no\n{FRAMES}KeyError: {'y' * 900}")) == SENTENCE


def test_frames_that_are_cut_off_quote_nothing() -> None:
    assert quoted(f"no\n{FRAMES}") == ""
    assert reason_in(f"no\n{FRAMES}") == "no"


def test_an_exception_during_the_handling_of_another_one_is_the_cause() -> None:
    during = "During handling of the above exception, another exception occurred:"
    text = f"{FRAMES}KeyError: 1\n\n{during}\n\n{FRAMES}KeyError: 2"
    assert quoted(text) == "KeyError: 2"
    assert [message_in(each) for each in chain(text)[::2]] == ["KeyError: 1", "KeyError: 2"]
