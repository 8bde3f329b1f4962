"""The exceptions that a failure came from, as its traceback tells them."""

from __future__ import annotations

from launcher.diagnosis.failure import FirstFailure, Told
from launcher.state.events import RankRaised
from launcher.state.ranks import Rank

CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"


def block(kind: str, message: str, statement: str = "call()", file: str = "/home/ada/train.py") -> str:
    head = f'Traceback (most recent call last):\n  File "{file}", line 3, in main\n    {statement}\n'
    return f"{head}{kind}: {message}\n"


def failure(text: str, kind: str, message: str) -> FirstFailure:
    told = RankRaised(time=1.0, rank=0, kind=kind, message=message, traceback=text)
    return FirstFailure(Rank(rank=0, raised=told))


def test_a_direct_cause_counts_as_the_exception_itself() -> None:
    text = block("OSError", "[Errno 98] in use") + CAUSE + block("ServerError", "no server", "raise X from e")
    first = failure(text, "ServerError", "no server")

    assert (
        Told("ServerError", "no server", by_user=True),
        Told("OSError", "[Errno 98] in use"),
    ) == first.errors
    found = first.begins(r"\[Errno (\d+)\]", "OSError")
    assert found is not None
    assert ("98", "certain") == (found.match[1], found.certainty)


def test_a_line_that_cannot_be_seen_may_be_a_raise_of_the_users() -> None:
    text = 'Traceback (most recent call last):\n  File "/tmp/gone.py", line 3, in main\nOSError: [Errno 98]\n'
    found = failure(text, "OSError", "[Errno 98]").begins(r"\[Errno 98\]", "OSError")
    assert found is not None
    assert "likely" == found.certainty


def test_what_was_handled_counts_only_where_it_was_passed_on() -> None:
    passed_on = (
        block("OSError", "[Errno 98]") + CONTEXT + block("RuntimeError", "no server", "raise RuntimeError")
    )
    found = failure(passed_on, "RuntimeError", "no server").begins(r"\[Errno 98\]", "OSError")
    assert found is not None
    assert "likely" == found.certainty

    of_its_own = block("OSError", "[Errno 98]") + CONTEXT + block("KeyError", "'x'", "train()")
    assert failure(of_its_own, "KeyError", "'x'").begins(r"\[Errno 98\]", "OSError") is None


def test_what_a_loader_quotes_is_an_exception_of_its_own() -> None:
    inner = block("OSError", "[Errno 24] Too many open files: 'a'", "open(name)").rstrip("\n")
    message = f"Caught OSError in DataLoader worker process 0.\nOriginal {inner}"
    text = block("OSError", message, "raise exception", "/x/site-packages/torch/_utils.py")
    first = failure(text, "OSError", message)

    assert "[Errno 24] Too many open files: 'a'" == first.errors[1].message
    assert first.begins(r"\[Errno 24\]", "OSError") is not None
    own = message.replace("open(name)", "raise OSError(24, name)")
    assert failure(text.replace(message, own), "OSError", own).begins(r"\[Errno 24\]", "OSError") is None


def test_kinds_are_exact_and_messages_match_from_their_beginning() -> None:
    first = failure(block("my.OSError", "[Errno 98]"), "my.OSError", "[Errno 98]")

    assert first.begins(r"\[Errno 98\]", "OSError") is None
    assert (
        failure(block("OSError", "see [Errno 98]"), "OSError", "see [Errno 98]").begins("Errno", "OSError")
        is None
    )


def test_a_rank_that_raised_nothing_has_no_exceptions() -> None:
    assert () == FirstFailure(Rank(rank=0)).errors
    assert FirstFailure(Rank(rank=0)).begins("", "MemoryError") is None


def test_a_traceback_without_source_lines_is_read_as_well() -> None:
    text = 'Traceback (most recent call last):\n  File "/gone.py", line 3, in main\nMemoryError\n'

    assert failure(text, "MemoryError", "").begins("", "MemoryError") is not None
