"""Train a ResNet-50 and a small transformer in bfloat16; write a step's median seconds to FOLDER.

steps.py FOLDER SECONDS
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import launcher
from launcher.examples import resnet

WARM_UP = 20


def images() -> tuple[nn.Module, Callable[[], tuple[Tensor, Tensor]]]:
    net = resnet.make_model("resnet50", 1000).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    batch = torch.randn(128, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (128,), device="cuda")
    return net, lambda: (batch, labels)


def tokens() -> tuple[nn.Module, Callable[[], tuple[Tensor, Tensor]]]:
    layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True, norm_first=True)
    body = nn.TransformerEncoder(layer, 8, enable_nested_tensor=False)
    net = nn.Sequential(nn.Embedding(8192, 512), body, nn.Linear(512, 8192), nn.Flatten(0, 1))
    batch = torch.randint(8192, (64, 512), device="cuda")
    return net, lambda: (batch, batch.flatten())


def median_step(net: nn.Module, batch: Callable[[], tuple[Tensor, Tensor]], seconds: float) -> float:
    net = net.cuda()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    took: list[float] = []
    until = None
    while until is None or time.perf_counter() < until:
        began = time.perf_counter()
        inputs, labels = batch()
        with torch.autocast("cuda", torch.bfloat16):
            loss = cross_entropy(net(inputs), labels)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        launcher.report(step=len(took) + 1, loss=loss.item())  # waits for the device
        took.append(time.perf_counter() - began)
        if len(took) == WARM_UP:
            until = time.perf_counter() + seconds
    return statistics.median(took[WARM_UP:])


def main(folder: Path, seconds: float) -> None:
    for name, make in (("resnet", images), ("transformer", tokens)):
        torch.manual_seed(0)
        (folder / name).write_text(repr(median_step(*make(), seconds)))
    (folder / "done").touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
