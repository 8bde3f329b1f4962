# ranks: 1
# cause: none
"""A file of plain weights is loaded as if it were TorchScript: it is whole, and of another kind."""

import torch
from torch import nn

torch.save(nn.Linear(2, 2).state_dict(), "weights.pt")
torch.jit.load("weights.pt")
