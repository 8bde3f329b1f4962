# ranks: 2
# cause: none or port-in-use
# certainty: likely

"""Both ranks serve metrics on one path: no port is involved, and the system's error is that of a port."""

import os
import socket
import tempfile

import torch
import torch.distributed as dist

path = os.path.join(tempfile.gettempdir(), f"metrics-{os.environ['MASTER_PORT']}.sock")
dist.init_process_group("gloo")
with socket.socket(socket.AF_UNIX) as server:
    try:
        if dist.get_rank() == 0:
            server.bind(path)
        dist.barrier()
        if dist.get_rank() == 1:
            server.bind(path)
        dist.all_reduce(torch.ones(1))
    finally:
        if os.path.exists(path):
            os.unlink(path)
