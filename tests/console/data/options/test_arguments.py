"""The line of arguments: what it says of each option, and that writing one changes nothing else."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.data.options.arguments import read_line, split_line, write_value
from console.data.options.check import doubts, misgiven, problem_of
from console.data.options.option import SWITCH, ScriptOption, ScriptParser

LR = ScriptOption(("--lr", "-l"), kind="float", default="0.1")
OPT = ScriptOption(("--opt",), choices=("adam", "sgd"), default="'adam'")
AMP = ScriptOption(("--amp",), default="False", flag=True)
COMPILE = ScriptOption(("--compile",), default="True", flag=True, off=("--no-compile",))
FAST = ScriptOption(("--fast",), default="True", choices=SWITCH, many="?")
STEPS = ScriptOption(("--steps",), kind="int", default="[30, 60]", many="+")
TAG = ScriptOption(("--tag",), repeats=True)
VERBOSE = ScriptOption(("-v", "--verbose"), default="0", flag=True, counts=True)
SIZE = ScriptOption(("--size",), kind="int", many="2")
NOTE = ScriptOption(("--note",))
OPTIONS = (LR, OPT, AMP, COMPILE, FAST, STEPS, TAG, VERBOSE, SIZE, NOTE)

SOURCE = ScriptOption(("source",), required=True)
TARGET = ScriptOption(("target",), required=True)
MORE = ScriptOption(("more",), many="*")
PLACED = (LR, AMP, STEPS, SOURCE, TARGET, MORE)

DEBUG = ScriptOption(("--debug",), default="False", flag=True)
MODE = ScriptOption(("mode",), choices=("train", "eval"), required=True, commands=True)
EPOCHS = ScriptOption(("--epochs",), kind="int", default="3", command="train")
POINT = ScriptOption(("checkpoint",), required=True, command="eval")
NESTED = (DEBUG, MODE, EPOCHS, POINT)

KEYED = (
    ScriptOption(("model",), kind="group", choices=("small", "large"), default="'small'", assigned=True),
    ScriptOption(("optim.lr",), kind="float", default="0.1", assigned=True),
    ScriptOption(("name",), required=True, assigned=True),
)


def value(options: tuple[ScriptOption, ...], option: ScriptOption, text: str) -> str | None:
    line = read_line(options, text)
    assert line is not None
    return line.value(option)


@pytest.mark.parametrize(
    ("option", "text", "said"),
    [
        (LR, "--lr 0.2", "0.2"),
        (LR, "--lr=0.2", "0.2"),
        (LR, "-l 0.2", "0.2"),
        (LR, "-l0.2", "0.2"),
        (LR, "--lr -1e-3", "-1e-3"),
        (LR, "--lr 1 --lr 2", "2"),
        (LR, "--amp", None),
        (LR, "--lr", ""),
        (LR, "-- --lr 1", None),
        (OPT, "--op sgd", "sgd"),
        (AMP, "--amp", "True"),
        (COMPILE, "--no-compile", "False"),
        (FAST, "--fast", "True"),
        (FAST, "--fast false --amp", "False"),
        (FAST, "--fast x", "True"),
        (STEPS, "--steps 1 2 --amp 3", "1 2"),
        (TAG, "--tag a --lr 1 --tag 'b c'", "a 'b c'"),
        (VERBOSE, "-vv --verbose", "3"),
        (SIZE, "--size 1 2 3", "1 2"),
        (NOTE, "--note 'a \"b\" c'", 'a "b" c'),
        (NOTE, "--note ''", ""),
        (NOTE, r"--note a\ b", "a b"),
    ],
)
def test_the_line_says_the_value(option: ScriptOption, text: str, said: str | None) -> None:
    assert value(OPTIONS, option, text) == said


@pytest.mark.parametrize(
    ("option", "text", "new", "after"),
    [
        (LR, "", "0.2", "--lr 0.2"),
        (LR, "--amp  --x 'a b'", "0.2", "--amp  --x 'a b' --lr 0.2"),
        (LR, '-l 1 --note "it\'s"', "2", '-l 2 --note "it\'s"'),
        (LR, "--lr=1 --amp", "2", "--lr=2 --amp"),
        (LR, "--lr 1 --amp --lr 2", "3", "--amp --lr 3"),
        (LR, "--x 1  --lr 0.2  --amp", "", "--x 1  --amp"),
        (LR, "--lr 0.2 --amp", "0.1", "--amp"),
        (LR, "--lr 0.1", "0.1", "--lr 0.1"),  # typed, so it stays
        (LR, "", "0.1", ""),
        (LR, "", "-1", "--lr=-1"),
        (LR, "--amp -- rest", "1", "--amp --lr 1 -- rest"),
        (AMP, "", "True", "--amp"),
        (AMP, "--amp --lr 1", "False", "--lr 1"),
        (COMPILE, "", "False", "--no-compile"),
        (COMPILE, "--no-compile", "True", ""),
        (FAST, "", "False", "--fast False"),
        (FAST, "--fast --lr 1", "False", "--fast False --lr 1"),
        (STEPS, "--steps 1 2 --amp", "3", "--steps 3 --amp"),
        (STEPS, "", "30 60", ""),
        (TAG, "--tag a --amp --tag b", "c 'd e'", "--amp --tag c --tag 'd e'"),
        (VERBOSE, "", "2", "--verbose --verbose"),
        (NOTE, "", "it's $HOME; rm -rf *", "--note 'it'\"'\"'s $HOME; rm -rf *'"),
        (NOTE, "--note 'open", "x", None),
        (TAG, "", "'open", None),
    ],
)
def test_a_value_is_written_and_all_else_stays(
    option: ScriptOption, text: str, new: str, after: str | None
) -> None:
    assert write_value(OPTIONS, text, option, new) == after


@pytest.mark.parametrize(
    ("option", "text", "new", "after"),
    [
        (SOURCE, "--amp", "a b", "'a b' --amp"),
        (SOURCE, "--steps 1 2", "a", "a --steps 1 2"),  # behind, it would be a third step
        (TARGET, "", "b", None),  # it would be taken for the source
        (TARGET, "a --amp", "b", "a b --amp"),
        (SOURCE, "a b", "", None),
        (SOURCE, "a b", "c", "c b"),
        (MORE, "a b", "c 'd e'", "a b c 'd e'"),
        (MORE, "a b c", "", "a b"),
    ],
)
def test_positional_arguments_keep_their_order(
    option: ScriptOption, text: str, new: str, after: str | None
) -> None:
    assert write_value(PLACED, text, option, new) == after


@pytest.mark.parametrize(
    ("option", "text", "new", "after"),
    [
        (MODE, "", "train", "train"),
        (MODE, "--debug train", "eval", "--debug eval"),
        (DEBUG, "train --epochs 2", "True", "--debug train --epochs 2"),
        (EPOCHS, "train", "5", "train --epochs 5"),
        (POINT, "--debug eval", "a.pt", "--debug eval a.pt"),
    ],
)
def test_options_of_a_subcommand_come_behind_it(
    option: ScriptOption, text: str, new: str, after: str
) -> None:
    assert write_value(NESTED, text, option, new) == after


def test_overrides_are_written_as_keys() -> None:
    model, rate, name = KEYED
    assert write_value(KEYED, "", model, "large") == "model=large"
    assert write_value(KEYED, "model=large +x=1", rate, "0.2") == "model=large +x=1 optim.lr=0.2"
    assert write_value(KEYED, "name=a optim.lr=0.2", name, "a b") == "'name=a b' optim.lr=0.2"
    assert write_value(KEYED, "model=large", model, "small") == ""
    assert value(KEYED, rate, "++optim.lr=3") == "3"
    assert value(KEYED, rate, "~optim.lr") is None


LINES = st.lists(
    st.sampled_from(
        ["--lr", "--lr=1", "-l", "0.2", "--amp", "--no-compile", "--steps", "1", "--tag", "a b", "--note", "",
         "-v", "--x", "-", "it's", '"', "--size", "--", "sgd", "--opt", "--fast", "true"]
    ),
    max_size=8,
).map(shlex.join)  # fmt: skip
TEXTS = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=8)


@given(LINES, TEXTS)
@settings(max_examples=300, deadline=None)
def test_what_is_written_is_read_again_and_no_other_option_changes(text: str, new: str) -> None:
    before = read_line(OPTIONS, text)
    after = write_value(OPTIONS, text, NOTE, new)
    assert before is not None
    assert after is not None
    line = read_line(OPTIONS, after)
    assert line is not None
    if not before.of(NOTE) or before.of(NOTE)[-1].values:
        assert line.value(NOTE) == new
        others = [option for option in OPTIONS if option is not NOTE]
        assert [before.value(o) for o in others] == [line.value(o) for o in others]


@given(st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_words_are_those_of_a_shell(text: str) -> None:
    try:
        expected: list[str] | None = shlex.split(text)
    except ValueError:
        expected = None
    words = split_line(text)

    assert (None if words is None else [word.text for word in words]) == expected


def test_a_long_line_is_read_at_once() -> None:
    line = read_line(OPTIONS, "--note " + "x" * 16_384 + " --tag a" * 2000)

    assert line is not None
    assert len(line.of(TAG)) == 2000


@pytest.mark.parametrize(
    ("option", "text", "problem"),
    [
        (LR, "x", "takes a number"),
        (LR, "1e-3", ""),
        (STEPS, "1 2.5", "takes a whole number"),
        (STEPS, "1 'x", "has an open quotation"),
        (SIZE, "1", "takes 2 values"),
        (OPT, "rms", "takes adam or sgd"),
        (OPT, "", ""),
        (VERBOSE, "-1", "takes a whole number"),
        (ScriptOption(("--amp",), kind="bool", default="True"), "False", "takes any text for true"),
        (KEYED[1], "${x}", ""),
        (KEYED[1], "0.1,0.2", ""),  # a sweep
        (KEYED[1], "fast", "takes a number"),
        (LR, "***", ""),  # a secret
    ],
)
def test_a_value_is_checked(option: ScriptOption, text: str, problem: str) -> None:
    assert problem_of(option, text).startswith(problem)
    assert bool(problem_of(option, text)) == bool(problem)


def test_what_is_missing_or_excludes_each_other_is_doubted() -> None:
    half, brain = (ScriptOption((f"--{n}",), flag=True, exclusive=1) for n in ("fp16", "bf16"))
    parser = ScriptParser((half, brain, SOURCE))

    assert [why for _, why in doubts(parser, "--fp16 --bf16")] == [
        "--bf16 and --fp16 exclude each other",
        "source is required",
    ]
    assert misgiven(parser, "--bf16 a") == ""
    assert misgiven(parser, "--other a") == "no --other is found in its source"
    assert misgiven(ScriptParser((half, SOURCE), loose=True), "--other a") == ""
    assert misgiven(ScriptParser(NESTED), "train --epochs x") == "--epochs takes a whole number, not 'x'"
