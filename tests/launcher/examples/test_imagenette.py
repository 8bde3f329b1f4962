"""The trainings by which scaling is measured, in small: the network, the images, the figures, real ranks."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import launcher
from launcher.examples import imagenette, imagenette_data, resnet
from tests.trainings import FOLDER, Example, results

SMALL: dict[str, Any] = {
    "epochs": 3,
    "batch_size": 8,
    "images": 64,
    "image_size": 32,
    "net": "small",
    "workers": 0,
}
ARGUMENTS = [f"--{key.replace('_', '-')}={value}" for key, value in SMALL.items()]
PACKAGE = "launcher.examples"
KEYS = ["ranks", "nodes", "epoch_s", "images_per_s", "efficiency", "loss", "val_accuracy"]


def pillow() -> Any:
    return pytest.importorskip("PIL.Image", reason="photographs are read with Pillow, which is not installed")


def recipe(**changed: Any) -> imagenette.Recipe:
    defaults = {name: each.default for name, each in inspect.signature(imagenette.train).parameters.items()}
    return imagenette.Recipe(**{**defaults, **changed})


# --- the network -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("classes", "parameters"), [(1000, 25_557_032), (10, 23_528_522)])
def test_resnet50_has_as_many_parameters_as_published(classes: int, parameters: int) -> None:
    model = resnet.make_model("resnet50", classes)

    assert parameters == sum(each.numel() for each in model.parameters())
    assert 53 == sum(isinstance(each, nn.Conv2d) for each in model.modules())


@pytest.mark.parametrize("net", resnet.NETS)
def test_a_batch_gives_logits_and_every_parameter_a_gradient(net: str) -> None:
    torch.manual_seed(0)
    model = resnet.make_model(net, 10)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):  # a block's convolutions begin with the second: it starts as the way around them
        optimizer.zero_grad()
        logits = model(torch.randn(4, 3, 32, 32))
        cross_entropy(logits, torch.tensor([0, 3, 7, 9])).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    assert (4, 10) == logits.shape
    gradients = [each.grad for each in model.parameters()]
    assert all(each is not None and each.isfinite().all() and each.any() for each in gradients)


def test_a_block_halves_the_image_in_its_middle() -> None:
    convolutions = [each for each in resnet.Bottleneck(64, 32, 2).body if isinstance(each, nn.Conv2d)]

    assert [(1, 1), (3, 2), (1, 1)] == [(each.kernel_size[0], each.stride[0]) for each in convolutions]
    assert (1, 128, 4, 4) == resnet.Bottleneck(64, 32, 2)(torch.randn(1, 64, 8, 8)).shape


# --- the images --------------------------------------------------------------------------------------------


def test_generated_images_have_the_numbers_and_the_shape_of_imagenettes() -> None:
    train, val, classes = imagenette_data.split("", None, 160)
    image, label = train[9468]

    assert (9469, 3925, 10) == (len(train), len(val), classes)
    assert (3, 160, 160) == image.shape
    assert 9 == label


def test_a_generated_image_is_the_same_in_every_process_and_no_other_is_like_it() -> None:
    train, val, _ = imagenette_data.split("", None, 32)
    again, _, _ = imagenette_data.split("", None, 32)

    assert torch.equal(train[5][0], again[5][0])
    assert not torch.equal(train[5][0], train[6][0])
    assert not torch.equal(train[5][0], val[5][0])


def test_fewer_images_are_evenly_of_all_classes_and_of_both_sets() -> None:
    train, val, _ = imagenette_data.split("", 100, 32)

    counts = torch.tensor([label for _, label in iterated(train)]).bincount()
    assert (100, 10) == (int(counts.sum()), len(counts))
    assert {9, 10, 11} >= set(counts.tolist())
    assert 42 == len(val)
    with pytest.raises(launcher.SpecError, match="9469 images to train on, which is fewer"):
        imagenette_data.split("", 9470, 32)


def iterated(images: Any) -> list[tuple[torch.Tensor, int]]:
    return [images[i] for i in range(len(images))]


def test_ranks_train_on_equal_shares_and_on_others_in_the_next_epoch() -> None:
    train, val, _ = imagenette_data.split("", 67, 32)
    epochs = []
    for epoch in (0, 1):
        both = [imagenette_data.loaders(train, val, rank, 2, 8, 0)[0] for rank in (0, 1)]
        for each in both:
            each.sampler.set_epoch(epoch)  # type: ignore[attr-defined]  # a DistributedSampler
        assert [4, 4] == [len(each) for each in both]
        first, second = (set(each.sampler) for each in both)
        assert (33, 33, 0) == (len(first), len(second), len(first & second))
        epochs.append(first)
    assert epochs[0] != epochs[1]


def test_every_image_is_validated_on_by_one_rank() -> None:
    train, val, _ = imagenette_data.split("", 67, 32)
    shares = [imagenette_data.loaders(train, val, rank, 3, 8, 0)[1] for rank in range(3)]

    indices = [i for each in shares for i in each.dataset.indices]  # type: ignore[attr-defined]  # a Subset
    assert list(range(len(val))) == sorted(indices)
    assert len(val) == sum(len(images) for each in shares for images, _ in each)


@pytest.mark.parametrize(("images", "batch_size", "world"), [(15, 8, 2), (2, 2, 3)])
def test_a_rank_without_a_batch_is_refused(images: int, batch_size: int, world: int) -> None:
    train, val, _ = imagenette_data.split("", images, 32)

    with pytest.raises(
        launcher.SpecError, match=f"too few for a batch of {batch_size} on every rank of {world}"
    ):
        imagenette_data.loaders(train, val, 0, world, batch_size, 0)


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    """A folder like imagenette2, of three classes: red, green and blue, with one grey photograph in each."""
    image = pillow()
    for part, count in (("train", 8), ("val", 4)):
        for label, name in enumerate(("n01", "n02", "n03")):
            (tmp_path / part / name).mkdir(parents=True)
            colour = tuple(200 * (label == channel) for channel in range(3))
            for i in range(count):
                kind, paint = ("L", 90) if i == 0 else ("RGB", colour)
                image.new(kind, (60 + i, 40), paint).save(tmp_path / part / name / f"{i}.JPEG")
    (tmp_path / "train" / "n01" / ".DS_Store").touch()
    (tmp_path / "train" / "notes.txt").touch()
    return tmp_path


def test_photographs_are_read_from_a_folder_for_each_class(photographs: Path) -> None:
    train, val, classes = imagenette_data.split(str(photographs), None, 32)

    assert (24, 12, 3) == (len(train), len(val), classes)
    assert [label for label in range(3) for _ in range(8)] == [label for _, label in iterated(train)]
    assert {(3, 32, 32)} == {tuple(image.shape) for image, _ in iterated(train) + iterated(val)}
    image, label = val[5]
    assert (1, 1) == (label, int(image.mean((1, 2)).argmax()))
    expected = (torch.tensor([0, 200, 0]) / 255 - torch.tensor(imagenette_data.MEAN)) / torch.tensor(
        imagenette_data.DEVIATION
    )
    assert torch.allclose(expected, image[:, 16, 16], atol=0.05)


@pytest.mark.frameworks
def test_a_small_network_trains_on_photographs(photographs: Path) -> None:
    options = ["--net=small", "--image-size=32", "--batch-size=6", "--workers=1", "--epochs=2"]
    done = alone(f"--data={photographs}", *options)

    assert 0 == done.returncode, done.stderr
    assert 2 == len(losses(done.stdout))


def test_a_photograph_is_augmented_in_training_alone(photographs: Path) -> None:
    for i in range(8):  # so that every part of it differs
        pillow().linear_gradient("L").save(photographs / "train" / "n01" / f"{i}.JPEG")
        pillow().linear_gradient("L").save(photographs / "val" / "n01" / f"{i}.JPEG")
    train, val, _ = imagenette_data.split(str(photographs), None, 32)

    assert not torch.equal(train[3][0], train[3][0])
    assert torch.equal(val[3][0], val[3][0])


@pytest.mark.parametrize("size", [(40, 400), (400, 40), (1, 1)])
def test_no_part_of_a_photograph_lies_beyond_it(size: tuple[int, int]) -> None:
    for left, top, right, bottom in [imagenette_data.random_box(*size) for _ in range(200)]:
        assert 0 <= left < right <= size[0]
        assert 0 <= top < bottom <= size[1]
    left, top, right, bottom = imagenette_data.central_box(*size)
    assert right - left == bottom - top == min(size) * 7 / 8
    assert (left + right, top + bottom) == size


def with_empty_classes(folder: Path, *parts: str) -> str:
    for part in parts:
        (folder / part / "n01").mkdir(parents=True)
        (folder / part / "n01" / "1.JPEG").touch()
    return str(folder)


@pytest.mark.parametrize("parts", [(), ("train",), ("val",)])
def test_a_folder_of_another_structure_is_refused(tmp_path: Path, parts: tuple[str, ...]) -> None:
    folder = with_empty_classes(tmp_path, *parts)

    with pytest.raises(launcher.SpecError, match="has no photographs in train/CLASS and val/CLASS"):
        imagenette_data.split(folder, None, 32)


def test_a_missing_pillow_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)

    with pytest.raises(launcher.SpecError, match="photographs are read with Pillow: pip install pillow"):
        imagenette_data.split(with_empty_classes(tmp_path, "train", "val"), None, 32)


# --- the figures -------------------------------------------------------------------------------------------


def test_an_epochs_time_is_the_median_without_the_first() -> None:
    meter = imagenette.Meter(recipe(batch_size=10, one_rank_s=1.5), 105, torch.device("cpu"))
    meter.epoch_s = [9.0, 2.0, 7.0, 3.0]
    figures = meter.result(0.5)

    assert KEYS == list(figures)
    assert (3.0, 100 / 3, 0.5) == (figures["epoch_s"], figures["images_per_s"], figures["efficiency"])


def test_a_single_epochs_time_counts_and_without_a_baseline_there_is_no_efficiency() -> None:
    meter = imagenette.Meter(recipe(batch_size=10), 100, torch.device("cpu"))
    meter.epoch_s = [4.0]
    figures = meter.result(0.5)

    assert (4.0, 25.0, None) == (figures["epoch_s"], figures["images_per_s"], figures["efficiency"])


def test_images_that_make_no_whole_step_do_not_raise_the_efficiency() -> None:
    """Of 100 images, two ranks with batches of 30 take 60 in an epoch, and one rank takes 90."""
    meter = imagenette.Meter(recipe(batch_size=30, one_rank_s=9.0), 100, torch.device("cpu"))
    meter.ranks, meter.steps, meter.images = 2, 1, 60
    meter.epoch_s = [3.0]

    assert 1.0 == meter.result(0.5)["efficiency"]


def row(ranks: int, nodes: int, epoch_s: float, efficiency: float | None = None) -> dict[str, Any]:
    speed = 9408 / epoch_s
    return {
        "ranks": ranks,
        "nodes": nodes,
        "epoch_s": epoch_s,
        "images_per_s": speed,
        "efficiency": efficiency,
    }


def test_results_are_a_table_by_the_number_of_ranks() -> None:
    table = imagenette.scaling_table([row(16, 2, 1.0), row(1, 1, 12.0), row(4, 2, 4.0), row(4, 1, 3.2)])

    assert table.splitlines() == [
        "ranks  nodes  s/epoch  images/s  speed-up  efficiency",
        "    1      1       12     784.0      1.00        100%",
        "    4      1      3.2   2,940.0      3.75         94%",
        "    4      2        4   2,352.0      3.00         75%",
        "   16      2        1   9,408.0     12.00         75%",
    ]


def test_a_result_that_has_its_efficiency_keeps_it_and_one_without_a_baseline_has_none() -> None:
    told, untold = (imagenette.scaling_table([row(4, 1, 3.2, told)]).splitlines()[1] for told in (0.9, None))

    assert ["3.60", "90%"] == told.split()[-2:]
    assert ["-", "-"] == untold.split()[-2:]


# --- the options -------------------------------------------------------------------------------------------


def test_scripts_and_functions_have_the_same_options() -> None:
    parameters = inspect.signature(imagenette.train).parameters
    tree = ast.parse((FOLDER / "imagenette_lightning.py").read_text())
    of_lightning = next(e for e in tree.body if isinstance(e, ast.FunctionDef) and e.name == "train")
    tree = ast.parse(inspect.getsource(imagenette.train))

    assert vars(imagenette.make_parser("").parse_args([])) == {k: v.default for k, v in parameters.items()}
    assert ast.unparse(tree.body[0].args) == ast.unparse(of_lightning.args)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--images 0", "images is 0, but must be at least 1"),
        ("--image-size 16", "image_size is 16, but must be at least 32"),
        ("--batch-size 1", "batch_size is 1, but must be at least 2"),
        ("--epochs 0", "epochs is 0, but must be at least 1"),
        ("--workers -1", "workers is -1, but must be at least 0"),
        ("--lr nan", "lr is nan, but must be positive"),
        ("--one-rank-s 0", "one_rank_s is 0.0, but must be positive"),
        ("--net vgg", "argument --net: invalid choice: 'vgg'"),
        ("--data nowhere", "nowhere is not a folder"),
        ("--table nothing", "no run is called 'nothing'"),
    ],
)
def test_what_cannot_be_trained_is_told_in_a_sentence(
    options: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["imagenette.py", *options.split()])
    with pytest.raises(SystemExit) as end:
        imagenette.main()

    assert 2 == end.value.code
    assert f"imagenette.py: error: {said}" in capsys.readouterr().err


def test_a_network_that_does_not_exist_is_refused_as_a_parameter_too() -> None:
    with pytest.raises(launcher.SpecError, match="net is 'vgg', but must be one of resnet50, small"):
        recipe(net="vgg")


# --- real ranks --------------------------------------------------------------------------------------------


def command(*words: object) -> subprocess.CompletedProcess[str]:
    """A command outside any gang."""
    outside = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")}
    return subprocess.run(
        [str(word) for word in words],
        env={**outside, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def alone(*options: str) -> subprocess.CompletedProcess[str]:
    return command(sys.executable, FOLDER / "imagenette.py", *options)


def losses(output: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"epoch \d of \d: loss ([\d.]+),", output)]


@pytest.mark.frameworks
def test_one_process_trains_under_plain_python() -> None:
    done = alone(*ARGUMENTS, "--one-rank-s=1")

    assert 0 == done.returncode, done.stderr
    first, *_, last = losses(done.stdout)
    assert last < 0.8 * first
    ranks, nodes, *_, efficiency = done.stdout.splitlines()[-1].split()
    assert ("1", "1") == (ranks, nodes)
    assert 0 < int(efficiency.removesuffix("%"))


@pytest.mark.frameworks
def test_two_ranks_train_as_a_script_whose_figures_make_a_table(
    rankdeck: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = command(rankdeck, "run", FOLDER / "imagenette.py", "-n", "2", "--", *ARGUMENTS, "--one-rank-s=1")

    assert 0 == done.returncode, done.stderr
    first, *_, last = losses(done.stdout)
    assert last < 0.8 * first
    figures = imagenette.published("last")
    assert figures == json.loads(done.stdout[done.stdout.rindex("{") :])
    monkeypatch.setattr(sys, "argv", ["imagenette.py", "--table", "last"])
    imagenette.main()
    assert capsys.readouterr().out == imagenette.scaling_table([figures]) + "\n"


@pytest.mark.frameworks
def test_lightning_trains_as_the_plain_loop_does_on_the_same_shares(lightning: Example, mark: str) -> None:
    del mark
    (job, plain), (_, framed) = (
        trained(name, **launch)
        for name, launch in (("imagenette", {}), ("imagenette_lightning", lightning.launch()))
    )
    (first, second), metrics = plain, job.state.ranks[0].metrics

    assert KEYS == list(first) == list(second)
    assert (2, 1, None) == (first["ranks"], first["nodes"], first["efficiency"])
    assert first["loss"] != second["loss"]  # with the same weights, so on other images
    assert first["val_accuracy"] == second["val_accuracy"] > 0.2
    assert [12, 12] == [rank.step for rank in job.state.ranks]
    for name in ("epoch_s", "images_per_s", "val_accuracy"):  # `rankdeck compare` has them
        assert first[name] == metrics[name]
    assert KEYS == list(framed[0])
    for name in ("ranks", "nodes", "loss", "val_accuracy"):
        assert [each[name] for each in plain] == pytest.approx([each[name] for each in framed], abs=1e-3)


def trained(module: str, **launch: Any) -> tuple[launcher.Job, list[Any]]:
    """A run of two ranks, and their results."""
    job = launcher.Distributor(2, gpu=False, **launch).start(f"{PACKAGE}.{module}:train", **SMALL)
    return job, results(job)
