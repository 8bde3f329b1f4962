# ranks: 1
# cause: none
"""A script that also runs without a group handles the error of that, and fails at a name of its own."""

import torch.distributed as dist

SETTINGS = {"learning_rate": 0.1, "batch": 32}


def batch_of_rank() -> int:
    try:
        return SETTINGS["batch"] // dist.get_world_size()
    except (ValueError, RuntimeError):
        return SETTINGS["batch_size"]


print(batch_of_rank())
