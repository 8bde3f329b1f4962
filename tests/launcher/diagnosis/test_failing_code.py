"""Tracebacks for people: made from what Python prints, whatever that is."""

from __future__ import annotations

import textwrap
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

import pytest

from launcher.diagnosis.failing_code import traceback_lines, traceback_text
from launcher.state.events import RankRaised, SourceExcerpt, Variable

TORCH = "/opt/venv/lib/python3.12/site-packages/torch"
TEXT = f'''\
Traceback (most recent call last):
  File "/w/train.py", line 88, in main
    loss = step(model)
           ^^^^^^^^^^^
  File "{TORCH}/nn/modules/module.py", line 1740, in _wrapped_call_impl
    return self._call_impl(*args, **kwargs)
  File "{TORCH}/nn/modules/linear.py", line 125, in forward
    return F.linear(input, self.weight, self.bias)
  File "/w/model.py", line 3, in forward
    return q @ k
           ~~^~~
RuntimeError: mat1 and mat2 shapes cannot be multiplied
a note
'''
STEP = SourceExcerpt(
    file="/w/train.py",
    line=88,
    function="main",
    first=86,
    lines=(
        "def main():",
        "    for model in models:",
        "        loss = step(model)",
        "        print(loss)",
        "",
    ),
)
FORWARD = SourceExcerpt(
    file="/w/model.py", line=3, first=1, lines=("def forward(q):", "", "    return q @ k")
)


def raised(
    text: str,
    excerpts: Sequence[SourceExcerpt] = (),
    frames: Sequence[tuple[str, int, str]] = (),
    variables: Sequence[Variable] = (),
) -> RankRaised:
    return RankRaised(
        time=1.0, rank=0, kind="E", message="m", traceback=text,
        frames=tuple(frames), excerpts=tuple(excerpts), variables=tuple(variables),
    )  # fmt: skip


def printed(failing: Callable[[], object]) -> str:
    """What Python prints of a call's exception, without the frame of this function."""
    try:
        failing()
    except Exception as error:  # noqa: BLE001  the helper is for any
        tb = error.__traceback__
        assert tb is not None
        return "".join(traceback.format_exception(type(error), error, tb.tb_next))
    raise AssertionError("it has not failed")


def test_the_users_frames_have_their_source_and_libraries_are_folded() -> None:
    expected = """\
        Traceback (most recent call last):
          File "/w/train.py", line 88, in main
              86  def main():
              87      for model in models:
            > 88          loss = step(model)
                                 ^^^^^^^^^^^
              89          print(loss)
              90
          … 2 frames in torch/nn/modules
          File "/w/model.py", line 3, in forward
              1  def forward(q):
              2
            > 3      return q @ k
                            ~~^~~
        RuntimeError: mat1 and mat2 shapes cannot be multiplied
        a note"""
    assert textwrap.dedent(expected) == traceback_text(raised(TEXT, (FORWARD, STEP)))


def test_a_record_without_excerpts_keeps_what_python_printed() -> None:
    told = traceback_text(raised(TEXT))

    assert "    loss = step(model)\n           ^^^^^^^^^^^\n  … 2 frames in torch/nn/modules\n" in told
    assert told.endswith("           ~~^~~\nRuntimeError: mat1 and mat2 shapes cannot be multiplied\na note")


def test_what_a_line_is_says_how_to_show_it() -> None:
    kinds = [line.kind for line in traceback_lines(raised(TEXT, (FORWARD,)))]

    assert ["text", "frame", "source", "source", "folded", "frame"] == kinds[:6]
    assert ["source", "source", "failing", "failing", "text", "text"] == kinds[6:]


@pytest.mark.parametrize(
    ("files", "folded"),
    [
        ([f"{TORCH}/nn/functional.py"], "… 1 frame in torch/nn"),
        ([f"{TORCH}/nn/modules/a.py", f"{TORCH}/_tensor.py"], "… 2 frames in torch"),
        ([f"{TORCH}/a.py", "/usr/lib/python3.11/json/decoder.py"], "… 2 frames in torch, json"),
        (["/usr/lib/python3.11/threading.py"], "… 1 frame in threading"),
        (["<frozen importlib._bootstrap>"] * 3, "… 3 frames in importlib._bootstrap"),
        (["/usr/lib/python3/dist-packages/numpy/core.py"], "… 1 frame in numpy"),
        ([f"/x/lib64/python3.12/site-packages/{n}/a.py" for n in "abcd"], "… 4 frames in a, b, c and others"),
    ],
)
def test_where_folded_frames_are(files: Sequence[str], folded: str) -> None:
    text = "".join(f'  File "{file}", line 1, in f\n    x\n' for file in files)

    assert f"Traceback\n  {folded}\nE: m" == traceback_text(raised(f"Traceback\n{text}E: m"))


def test_frames_that_the_rank_took_for_the_users_are() -> None:
    """If all frames are of libraries, these are what there is to show."""
    file = f"{TORCH}/nn/functional.py"
    text = f'Traceback\n  File "{file}", line 7, in f\n    x\nE: m'

    assert text == traceback_text(raised(text, frames=[(file, 7, "f")]))


def chained() -> None:
    try:
        [].pop()
    except IndexError as error:
        error.add_note("the list is empty")
        raise RuntimeError("nothing left") from error


def grouped() -> NoReturn:
    raise ExceptionGroup("both", [ValueError("one"), ExceptionGroup("inner", [KeyError("two")])])


def raised_in_group() -> None:
    try:
        chained()
    except RuntimeError as error:
        raise ExceptionGroup("around", [error]) from None


@pytest.mark.parametrize("failing", [chained, grouped, raised_in_group])
def test_chains_notes_and_groups_stay_as_python_prints_them(failing: Callable[[], object]) -> None:
    text = printed(failing)

    assert text.rstrip() == traceback_text(raised(text))


def test_a_member_of_a_group_has_its_excerpt_behind_the_groups_bar() -> None:
    text = printed(raised_in_group)
    line = next(
        line for line in text.splitlines() if line.startswith("    |   File") and "in chained" in line
    )
    number = int(line.split(", line ")[1].partition(",")[0])
    lines = ("        [].pop()", "    except IndexError as error:")
    excerpt = SourceExcerpt(file=__file__, line=number, first=number, lines=lines)

    shown = traceback_text(raised(text, (excerpt,))).splitlines()
    below = shown[shown.index(line) + 1 :]
    assert f"    |     > {number}      [].pop()" == below[0]
    assert f"    |       {number + 1}  except IndexError as error:" in below


def test_a_traceback_in_a_message_is_folded_too() -> None:
    """A loader raises the exception of its worker so."""
    text = (
        f'Traceback (most recent call last):\n  File "/w/t.py", line 9, in <module>\n    next(batches)\n'
        f'  File "{TORCH}/utils/data/dataloader.py", line 733, in __next__\n    data = self._next_data()\n'
        f"ValueError: Caught ValueError in DataLoader worker process 0.\n"
        f"Original Traceback (most recent call last):\n"
        f'  File "{TORCH}/utils/data/fetch.py", line 54, in fetch\n'
        f'    data = [self.dataset[i] for i in idx]\n  File "/w/data.py", line 2, in __getitem__\n    raise\n'
        f"ValueError: bad row 3\n\n"
    )
    row = SourceExcerpt(file="/w/data.py", line=2, first=1, lines=("def __getitem__(self, i):", "    raise"))

    shown = traceback_text(raised(text, (row,))).splitlines()
    assert ["  … 1 frame in torch/utils/data", '  File "/w/data.py", line 2, in __getitem__'] == shown[6:8]
    assert ["      1  def __getitem__(self, i):", "    > 2      raise", "ValueError: bad row 3"] == shown[8:]


def test_a_syntax_error_has_its_excerpt() -> None:
    text = printed(lambda: compile("x = 1\ndef f(:\n", "/w/t.py", "exec"))
    excerpt = SourceExcerpt(file="/w/t.py", line=2, lines=("x = 1", "def f(:"))

    shown = traceback_text(raised(text, (excerpt,))).splitlines()
    assert ["      1  x = 1", "    > 2  def f(:", "               ^"] == shown[-4:-1]


def test_repetitions_are_counted() -> None:
    again = "  [Previous line repeated 996 more times]\n"
    own = '  File "/w/t.py", line 2, in f\n    f()\n'
    library = f'  File "{TORCH}/a.py", line 2, in f\n    f()\n'
    excerpt = SourceExcerpt(file="/w/t.py", line=2, lines=("def f():", "    f()"))

    assert f"T\n{own}{again}E" == traceback_text(raised(f"T\n{own}{again}E"))
    assert "T\n  … 998 frames in torch\nE" == traceback_text(raised(f"T\n{library * 2}{again}E"))
    assert traceback_text(raised(f"T\n{own}{again}E", (excerpt,))).endswith(f"    > 2      f()\n{again}E")


def test_of_a_deep_recursion_the_ends_are_shown_and_each_excerpt_once() -> None:
    pair = '  File "/w/t.py", line 2, in f\n    g()\n  File "/w/t.py", line 5, in g\n    f()\n'
    excerpts = [SourceExcerpt(file="/w/t.py", line=n, first=n, lines=("    x()  # seen",)) for n in (2, 5)]

    shown = traceback_text(raised(f"T\n{pair * 500}E: m", excerpts)).splitlines()
    assert "  … 984 frames left out" in shown
    assert len(shown) < 40
    assert (2, "E: m") == (sum("# seen" in line for line in shown), shown[-1])


def test_a_file_that_was_changed_is_told() -> None:
    changed = SourceExcerpt(file="/w/model.py", line=3, first=3, lines=("other",), changed=True)

    shown = traceback_text(raised(TEXT, (changed,)))
    assert "    > 3  other\n      the file was changed after the rank had started\n" in shown
    assert "~~^~~" not in shown


def test_variables_follow_in_a_table() -> None:
    variables = (
        Variable(name="batch", type="torch.Tensor", about="(8, 3) float32 on cuda:1"),
        Variable(name="lr", type="float", text="0.1"),
        Variable(name="model", type="__main__.Model"),
        Variable(name="x" * 99, type="str", about="5 characters", text="'hello'"),
    )

    shown = traceback_text(raised(TEXT, frames=[("/w/model.py", 3, "forward")], variables=variables))
    assert [
        "",
        "variables of forward at model.py:3",
        f"  {'batch':<32}  torch.Tensor    (8, 3) float32 on cuda:1",
        f"  {'lr':<32}  float           0.1",
        f"  {'model':<32}  __main__.Model",
        f"  {'x' * 99}  str             5 characters  'hello'",
    ] == shown.splitlines()[-6:]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "\0" * 100,
        "x" * 10_000_000,
        '  File "' * 10_000,
        " |" * 100_000,
        '  File "/w/t.py", line 1, in f\n' * 100_000,
        '  File "", line 999999999999999999, in \n    [Previous line repeated 9 more times]',
        '  File "<frozen >", line 1',
    ],
)
def test_whatever_a_record_holds_it_is_bounded(text: str) -> None:
    excerpts = [
        SourceExcerpt(file="/w/t.py", line=1, first=-(1 << 62), lines=("y" * 100_000,) * 10_000),
        SourceExcerpt(file="", line=999999999999999999, function="", lines=()),
    ]
    variables = [Variable(name="n" * 9999, type="t" * 9999, about="a" * 9999)] * 10_000

    shown = traceback_lines(raised(text, excerpts, [("f" * 9999, -1, "g" * 9999)], variables))
    assert len(shown) < 5000
    assert all(len(line.text) < 20_000 for line in shown)
