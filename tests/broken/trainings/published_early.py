# ranks: 2
# cause: none
"""The best result so far is published, and the training goes on and gives up."""

import sys

import torch.distributed as dist

import launcher

dist.init_process_group("gloo")
launcher.publish({"best": 0.9})
dist.barrier()
if dist.get_rank() == 1:
    print("diverged")
    sys.exit(2)
dist.barrier()
