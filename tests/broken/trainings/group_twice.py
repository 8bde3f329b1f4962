# ranks: 2
# cause: group-twice
# remedy: is_initialized()

"""A library and the script both make the group."""

import torch.distributed as dist

dist.init_process_group("gloo")
dist.init_process_group("gloo")
