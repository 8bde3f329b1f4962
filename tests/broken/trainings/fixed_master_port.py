# ranks: 2
# cause: port-in-use
# remedy: MASTER_PORT

"""A script that starts its own store on a port that another process holds."""

import os
import socket

import torch.distributed as dist

holder = socket.socket()
if os.environ["RANK"] == "0":
    holder.bind(("", 0))
    holder.listen()
    dist.TCPStore("127.0.0.1", holder.getsockname()[1], 2, is_master=True)
dist.init_process_group("gloo")
