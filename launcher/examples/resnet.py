"""ResNet-50, the network whose scaling is usually published, and a small one of the same kind for CPUs.

He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition, 2015. As everybody trains it now, a block
that halves the image does so in its 3×3 convolution.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

EXPANSION = 4
NETS = {"resnet50": ((3, 4, 6, 3), 64), "small": ((1, 1, 1, 1), 8)}
"""The blocks of each stage, and the width of the first."""


def make_model(net: str = "resnet50", classes: int = 1000) -> ResNet:
    """One of `NETS` with random weights, its channels side by side in memory, as GPUs like it."""
    model = ResNet(*NETS[net], classes)
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # its stubs lack it


class ResNet(nn.Module):
    """A classifier of images of any size from 32×32 pixels on.

    Args:
        blocks: of each stage. A stage halves the image, except for the first, and doubles the channels.
        width: the channels of the first convolution.
        classes: the number of outputs.
    """

    def __init__(self, blocks: tuple[int, ...], width: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            *convolution(3, width, 7, stride=2), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1)
        )
        widths = [width << stage for stage in range(len(blocks))]
        inputs = [width, *(EXPANSION * each for each in widths)]
        strides = [1] + [2] * (len(blocks) - 1)
        self.stages = nn.Sequential(*map(make_stage, blocks, inputs, widths, strides))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(inputs[-1], classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """The logits of a batch of images."""
        return self.head(self.pool(self.stages(self.stem(images))).flatten(1))


class Bottleneck(nn.Module):
    """Three convolutions, the middle one between fewer channels, and a way around them."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = EXPANSION * width
        last, norm = convolution(width, outputs, 1)
        nn.init.zeros_(norm.weight)  # so that the block begins as the way around it: Goyal et al., 2017
        self.body = nn.Sequential(
            *convolution(inputs, width, 1),
            nn.ReLU(),
            *convolution(width, width, 3, stride),
            nn.ReLU(),
            last,
            norm,
        )
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else nn.Sequential(*convolution(inputs, outputs, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        """The block's output for that of the one before it."""
        return torch.relu(self.body(x) + self.shortcut(x))


def make_stage(blocks: int, inputs: int, width: int, stride: int) -> nn.Sequential:
    """Blocks one after the other, of which the first has the stride."""
    rest = (Bottleneck(EXPANSION * width, width, 1) for _ in range(blocks - 1))
    return nn.Sequential(Bottleneck(inputs, width, stride), *rest)


def convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    """A convolution and the normalisation of its output, which is why it needs no bias."""
    convolved = nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)
    return convolved, nn.BatchNorm2d(outputs)
