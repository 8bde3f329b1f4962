"""Lightning on the CPU, with the devices that its arguments name. Publishes who trained together.

Usage: WHAT DEVICES. WHAT is `trainer` or `fabric`. DEVICES is a number, `auto`, or `default` to say nothing.
"""

import sys

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

import launcher

ROWS = 64


class Line(lightning.LightningModule):
    """One weight for each of two numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        return (self.layer(batch[0]) - batch[1]).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.01)


def main() -> None:
    what, devices = sys.argv[1:]
    chosen = {} if devices == "default" else {"devices": int(devices) if devices.isdigit() else devices}
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    steps = 0
    if what == "trainer":
        trainer = lightning.Trainer(accelerator="cpu", max_epochs=1, **quiet, **chosen)
        rows = torch.randn(ROWS, 2, generator=torch.Generator().manual_seed(0))
        trainer.fit(Line(), DataLoader(TensorDataset(rows, rows.sum(1, keepdim=True)), batch_size=1))
        steps, place = trainer.global_step, trainer
    else:
        place = lightning.Fabric(accelerator="cpu", **chosen)
        place.launch()
    launcher.publish({"rank": place.global_rank, "world": place.world_size, "steps": steps})


if __name__ == "__main__":
    main()
