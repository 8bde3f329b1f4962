# ranks: 1
# cause: none

"""A check of the user's own, on one line: the system has refused no memory."""

import torch

budget = 1_000_000
rows = torch.zeros(2_000, 16)
cost = rows.numel() * 64
if cost > budget: raise MemoryError(f"the plan wants {cost} rows in the cache, and --budget is {budget}")
