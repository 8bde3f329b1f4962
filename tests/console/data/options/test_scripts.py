"""What is read of scripts as people write them, none of which may be imported."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from console.data.options.option import MOST_HELP, MOST_OPTIONS, ScriptOption, ScriptParser
from console.data.options.reading import parameter_texts, parser_in, parser_of

from .scripts import FILES


def laid_out(folder: Path, files: dict[str, str]) -> Path:
    """The script, with the files beside it."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "train.py"


def read(folder: Path, name: str) -> ScriptParser:
    return parser_in(laid_out(folder, FILES[name]), folder)


def source(folder: Path, text: str, **others: str) -> ScriptParser:
    script = laid_out(folder, {"train.py": text, **{f"{n}.py": t for n, t in others.items()}})
    return parser_in(script, folder)


def told(option: ScriptOption) -> str:
    """An option in a few words."""
    parts = (
        option.command and f"{option.command}:",
        "/".join((*option.names, *option.off)),
        option.kind,
        "|".join(option.choices),
        option.many and f"x{option.many}",
        "again" * option.repeats,
        "counts" * option.counts,
        "flag" * option.flag,
        "computed" if option.computed else option.typed_default is not None and f"= {option.typed_default}",
        "required" * option.required,
        option.help and f"· {option.help}",
    )
    return " ".join(str(part) for part in parts if part)


@pytest.mark.parametrize(
    ("name", "library", "options"),
    [
        (
            "imagenet",
            "argparse",
            [
                "data x? = imagenet · path of the images",
                "-a/--arch = resnet18",
                "-b/--batch-size int = 256 · of all GPUs",
                "--lr/--learning-rate float = 0.1",
                "--workers int computed",
                "--steps int x+ = 30 60 90",
                "--tag again · may be given again",
                "--seed int",
                "-e/--evaluate flag = False",
                "--no-cuda flag = False",
                "--compile/--no-compile flag = True",
                "-v/--verbose counts flag = 0",
                "--amp bool = False",
                "--fp16 flag = False",
                "--bf16 flag = False",
            ],
        ),
        ("nanogpt", "", []),
        (
            "hf",
            "HfArgumentParser",
            [
                "--seed int = 42",
                "--model_name_or_path required · a folder, or a name on the hub",
                "--use_fast/--no_use_fast False|True x? = True · the fast tokenizer",
                "--freeze False|True x? = False",
                "--token",
                "--task cola|mnli = cola",
                "--max_len int = 128 · tokens",
                "--layers int x+ = 1 2",
                "--split train|all = train",
            ],
        ),
        (
            "subcommands",
            "argparse",
            [
                "--debug flag = False",
                "mode train|eval required · what to do",
                "train: --seed int = 1",
                "train: --epochs int = 3",
                "train: --opt adam|sgd = adam",
                "eval: --seed int = 1",
                "eval: checkpoint required",
            ],
        ),
        ("elsewhere", "argparse", ["--model small|large computed", "--depth int"]),
        (
            "click",
            "click",
            [
                "--lr float = 0.1 · rate",
                "--opt adam|sgd = adam",
                "--amp/--no-amp flag = True",
                "-q/--quiet flag = False",
                "--width int again = 32 64",
                "--size int x2",
                "-v/--verbose counts flag",
                "data Path required",
                "more x*",
            ],
        ),
        (
            "click_group",
            "click",
            [
                "--debug flag = False",
                "command train|eval-model required · train: Trains a model.",
                "train: --lr float required",
                "eval-model: checkpoint required",
            ],
        ),
        (
            "typer",
            "typer",
            [
                "data Path required · images",
                "--lr/-l float = 0.1 · rate",
                "--opt adam|sgd = adam",
                "--amp/--no-amp flag = False",
                "--force flag = False",
                "--tags again · again and again",
                "--steps int = 100 · how many",
                "--name required",
                "out = runs",
            ],
        ),
        (
            "typer_app",
            "typer",
            [
                "command train|evaluate required",
                "train: --lr float = 0.1",
                "evaluate: checkpoint required",
                "evaluate: --strict/--no-strict flag = True",
            ],
        ),
        (
            "simple",
            "argparse",
            [
                "--epochs int = 3 · how often the data is seen",
                "--lr float = 0.1 · learning rate",
                "--decay float = 0.0 · how much the weights shrink",
                "--debug False|True x? = False",
            ],
        ),
        (
            "tyro",
            "tyro",
            [
                "--name required",
                "--optim.lr float = 0.1",
                "--use-amp/--no-use-amp flag = True",
                "--opt-kind adam|sgd = adam",
                "--betas float x2 = 0.9 0.999",
                "--layers int x* = 1 2",
            ],
        ),
        (
            "pyrallis",
            "pyrallis",
            [
                "--lr float = 0.1",
                "--inner.dim int = 3",
                "--inner.names list of text = []",
                "--debug False|True = False",
            ],
        ),
        (
            "fire",
            "fire",
            [
                "--data required · the images",
                "--lr float = 0.1 · the rate",
                "--epochs int = 3",
                "--amp False|True = False",
            ],
        ),
        (
            "hydra",
            "Hydra",
            [
                "model group large|small = small · which network",
                "data group cifar",
                "model.width int = 64",
                "model.act = relu",
                "seed int = 1 · of everything",
                "name required",
                "out computed",
                "note = a # b",
                "amp False|True = True",
                "rate float = 1e-4",
                "layers list = [1, 2]",
                "betas list = [0.9,0.99]",
                "trainer.epochs int = 3",
                "trainer.clip",
                "trainer.plan computed",
            ],
        ),
        ("hydra_stored", "Hydra", ["name required", "debug False|True = False", "optim.lr float = 0.1"]),
    ],
)
def test_what_a_script_takes_is_read(tmp_path: Path, name: str, library: str, options: list[str]) -> None:
    parser = read(tmp_path, name)

    assert options == [told(option) for option in parser.options]
    assert library == parser.library


def test_only_one_of_a_group_may_be_given(tmp_path: Path) -> None:
    groups = {o.names[0]: o.exclusive for o in read(tmp_path, "imagenet").options}

    assert groups["--fp16"] == groups["--bf16"] != 0
    assert groups["--amp"] == 0


@pytest.mark.parametrize(
    ("name", "unread", "loose"),
    [
        ("hf", ("TrainingArguments",), True),
        ("lightning", ("Trainer",), True),
        ("subcommands", (), True),  # it passes on what it does not know
        ("imagenet", (), False),
        ("hydra", (), True),
    ],
)
def test_it_is_known_what_was_not_read(
    tmp_path: Path, name: str, unread: tuple[str, ...], loose: bool
) -> None:
    parser = read(tmp_path, name)

    assert (unread, loose) == (parser.unread, parser.loose)


def test_each_command_of_lightning_takes_the_parameters_of_model_and_data(tmp_path: Path) -> None:
    parser = read(tmp_path, "lightning")

    assert [told(o) for o in parser.options if o.command == "fit"] == [
        "fit: --config/-c Path again · a YAML file with values",
        "fit: --model.lr float = 0.1 · the rate",
        "fit: --model.width int = 64",
        "fit: --model.compile False|True = False",
        "fit: --data.root",
        "fit: --data.batch_size int = 32",
    ]


def test_the_values_of_a_config_group_are_those_of_the_chosen_one(tmp_path: Path) -> None:
    laid_out(tmp_path, FILES["hydra"])
    parser = parser_of("train.py", tmp_path, "model=large data=cifar")
    defaults = {o.names[0]: o.typed_default for o in parser.options}

    assert "model.act" not in defaults
    assert (defaults["model.width"], defaults["root"], defaults["model"]) == ("512", "/data", "small")


def test_a_change_of_any_file_is_seen(tmp_path: Path) -> None:
    script = laid_out(tmp_path, FILES["elsewhere"])
    before = parser_of("train.py", tmp_path)
    (tmp_path / "settings" / "more.py").write_text("def add_to(p):\n    p.add_argument('--other')\n")

    assert [o.names[0] for o in before.options] == ["--model", "--depth"]
    assert [o.names[0] for o in parser_of("train.py", script.parent).options] == ["--model", "--other"]


def test_the_docstring_of_a_function_tells_of_its_parameters(tmp_path: Path) -> None:
    laid_out(tmp_path, FILES["fire"])

    assert parameter_texts("train.py", "train", tmp_path) == {"data": "the images", "lr": "the rate"}
    assert parameter_texts("train.py", "gone", tmp_path) == {}
    assert parameter_texts("gone.py", "train", tmp_path) == {}


# --- hostile and broken sources --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "def (:",
        "import argparse\n" + "(" * 5000,
        "x = " + "1+" * 3000 + "1\np.add_argument('--a', default=x)",
        "\0",
        "p.add_argument('\x1b[2J')\np.add_argument('--a b')\np.add_argument('--\\u202e')",
        "from train import *\nfrom train import a\na = a\np.add_argument(a)",
        "a = b\nb = a\np.add_argument(a, choices=b, default=a)",
        "def f(p):\n    return f(p)\nf(f(f(argparse.ArgumentParser())))",
        "import argparse\np = argparse.ArgumentParser(parents=[p])\np.parse_args(p.parse_args())",
        "import hydra\n@hydra.main(config_path='../../../../etc', config_name='../passwd')\ndef main(c): ...",
        "import hydra\n@hydra.main(config_path='\\0', config_name='\\0')\ndef main(c): ...",
        "import tyro\nfrom dataclasses import dataclass\n@dataclass\nclass A(A):\n    a: 'A'\ntyro.cli(A)",
        "import typer\ntyper.run(None)\ntyper.run(f=1)",
        "import click\n@click.option()\n@click.option('/')\n@click.argument('--', '')\ndef f(): ...",
    ],
)
def test_a_source_that_makes_no_sense_has_no_options(tmp_path: Path, text: str) -> None:
    assert not source(tmp_path, text)


def test_dataclasses_inside_each_other_end(tmp_path: Path) -> None:
    text = (
        "import tyro\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass A:\n    b: 'B'\n    x: int = 1\n"
        "@dataclass\nclass B:\n    a: 'A'\n    y: int = 2\n"
        "tyro.cli(A)\n"
    )
    assert {o.names[0] for o in source(tmp_path, text).options} >= {"--x", "--b.y"}


def test_options_and_texts_are_bounded(tmp_path: Path) -> None:
    lines = [f"p.add_argument('--o{n}')" for n in range(2 * MOST_OPTIONS)]
    lines[0] = f"p.add_argument('--o0', help={'x' * 16_384!r})"
    parser = source(tmp_path, "\n".join(lines))

    assert len(parser.options) == MOST_OPTIONS
    assert parser.loose
    assert len(parser.options[0].help) == MOST_HELP


def test_a_deeply_nested_annotation_says_nothing(tmp_path: Path) -> None:
    text = f"import typer\ndef f(a: {'list[' * 40}int{']' * 40}): ...\ntyper.run(f)"

    assert [o.kind for o in source(tmp_path, text).options] == [""]


def test_a_huge_file_is_left_alone(tmp_path: Path) -> None:
    assert not source(tmp_path, "p.add_argument('--a')\n" + "# filler\n" * 300_000)


def test_control_characters_of_help_do_not_come_along_as_lines(tmp_path: Path) -> None:
    (option,) = source(tmp_path, r"p.add_argument('--a', help='a\n\tb', default='\x1b[2J')").options

    assert option.help == "a b"


def test_random_damage_to_scripts_does_no_harm(tmp_path: Path) -> None:
    dice = random.Random(20)
    for name, files in FILES.items():
        for number in range(12):
            damaged = {}
            for file, text in files.items():
                at = dice.randrange(len(text) + 1)
                cut = (
                    text[:at]
                    + dice.choice(["", "(", "]", "\n  ", "'", "None", ":"])
                    + text[at + dice.randrange(9) :]
                )
                damaged[file] = cut
            folder = tmp_path / f"{name}{number}"
            parser = parser_in(laid_out(folder, damaged), folder)
            assert len(parser.options) <= MOST_OPTIONS
