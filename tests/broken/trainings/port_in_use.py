# ranks: 2
# cause: port-in-use
# remedy: bind port 0

"""Each rank serves metrics on one fixed port."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch.distributed as dist

dist.init_process_group("gloo")
for rank in range(dist.get_world_size()):
    if rank == dist.get_rank():
        server = ThreadingHTTPServer(("127.0.0.1", 18233), BaseHTTPRequestHandler)
    dist.barrier()
