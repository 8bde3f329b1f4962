# ranks: 1
# cause: none

"""An estimate of the user's own is over a budget of the user's own: no memory was asked for."""

import torch

BUDGET = 1 << 30
model = torch.nn.Linear(64, 64)
estimate = sum(p.numel() for p in model.parameters()) * (1 << 20)
if estimate > BUDGET:
    raise RuntimeError(f"CUDA out of memory. Estimated {estimate >> 20} MiB for this batch, lower --batch")
