"""ResNet-50 on imagenette with Lightning, by which published tables of its scaling were made.

    rankdeck run launcher/examples/imagenette_lightning.py -n 4 -- --data imagenette2-160 --one-rank-s 42.5
    rankdeck run launcher/examples/imagenette_lightning.py:train -n 2 --param epochs=1
    torchrun --standalone --nproc-per-node 2 launcher/examples/imagenette_lightning.py

Options, images, network, optimizer, measurements and result are those of `imagenette.py`.
"""

from __future__ import annotations

import os
from typing import Any

import lightning
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import launcher
from launcher.examples import imagenette_data, resnet
from launcher.examples.imagenette import Meter, Recipe, make_optimizer, make_parser


class ImagenetteModule(lightning.LightningModule):
    """The network, a step of its training and of its validation, and its optimizer."""

    def __init__(self, net: str, classes: int, lr: float) -> None:
        super().__init__()
        self.model = resnet.make_model(net, classes)
        self.lr = lr
        self.accuracy = 0.0

    def training_step(self, batch: list[Tensor], index: int) -> Tensor:
        """The loss of this rank's batch."""
        del index
        images, labels = batch
        return cross_entropy(self.model(images), labels)

    def on_validation_epoch_start(self) -> None:
        """Nothing is counted yet."""
        self.counts = torch.zeros(2, device=self.device)

    def validation_step(self, batch: list[Tensor], index: int) -> None:
        """Count this rank's images, and those that are classified correctly."""
        del index
        images, labels = batch
        right = self.model(images).argmax(1) == labels
        self.counts += torch.stack([right.sum(), torch.tensor(len(labels), device=self.device)])

    def on_validation_epoch_end(self) -> None:
        """The share of all ranks' images that were classified correctly."""
        right, seen = self.trainer.strategy.reduce(self.counts, reduce_op="sum").tolist()
        self.accuracy = right / seen

    def configure_optimizers(self) -> dict[str, Any]:
        """That of `imagenette.py`, whose learning rate changes with every step."""
        optimizer, schedule = make_optimizer(self, self.lr, int(self.trainer.estimated_stepping_batches))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class EpochTimer(lightning.Callback):
    """Tells the meter of `imagenette.py` when an epoch begins and ends, and of every step.

    Args:
        recipe: of the training.
        images: that there are to train on.
    """

    def __init__(self, recipe: Recipe, images: int) -> None:
        self.recipe, self.images = recipe, images

    def on_train_start(self, _: lightning.Trainer, module: lightning.LightningModule) -> None:
        """The ranks have met."""
        self.meter = Meter(self.recipe, self.images, module.device)

    def on_train_epoch_start(self, *_: Any) -> None:
        """Before the first batch is read."""
        self.meter.begin_epoch()

    def on_train_batch_end(self, _: Any, __: Any, outputs: dict[str, Tensor], *___: Any) -> None:
        """After the optimizer's step."""
        self.meter.count(outputs["loss"])

    def on_train_epoch_end(self, *_: Any) -> None:
        """After the last step."""
        self.meter.end_epoch()


def train(
    epochs: int = 15,
    batch_size: int = 64,
    lr: float = 0.05,
    data: str = "",
    images: int | None = None,
    image_size: int = 160,
    net: str = "resnet50",
    workers: int = 4,
    amp: bool = False,
    one_rank_s: float | None = None,
) -> dict[str, float | None]:
    """Train on this rank's share of the images, with the parameters and the result of `imagenette.train`."""
    recipe = Recipe(epochs, batch_size, lr, data, images, image_size, net, workers, amp, one_rank_s)
    train_set, val_set, classes = imagenette_data.split(data, images, image_size)
    timer = EpochTimer(recipe, len(train_set))
    trainer = make_trainer(epochs, timer, amp=amp)
    lightning.seed_everything(trainer.global_rank, verbose=False)  # for other crops
    place = trainer.global_rank, trainer.world_size
    loader, val_loader = imagenette_data.loaders(train_set, val_set, *place, batch_size, workers)
    module = ImagenetteModule(net, classes, lr)
    trainer.fit(module, loader)
    trainer.validate(module, val_loader, verbose=False)
    return timer.meter.result(module.accuracy)


def make_trainer(epochs: int, timer: EpochTimer, *, amp: bool) -> lightning.Trainer:
    """A Trainer for all ranks. It has to be told how many there are on each host, and how many hosts."""
    local_world = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return lightning.Trainer(
        accelerator="gpu" if torch.cuda.device_count() >= local_world else "cpu",
        devices=local_world,  # under torchrun, "auto" is one on CPUs: every rank would train for itself
        num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", "1")),
        max_epochs=epochs,
        precision="bf16-mixed" if amp else "32-true",
        callbacks=timer,
        use_distributed_sampler=False,  # the loaders are divided already
        benchmark=True,  # all batches have one shape
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def main() -> None:
    """Train as the command line says, and make the figures the result of the run."""
    parser = make_parser("ResNet-50 on imagenette with Lightning")
    try:
        launcher.publish(train(**vars(parser.parse_args())))
    except launcher.SpecError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
