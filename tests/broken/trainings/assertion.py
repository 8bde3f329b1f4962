# ranks: 2
# cause: none

"""Shapes do not fit: the message says all."""

import torch

torch.ones(2, 3) @ torch.ones(2, 3)
