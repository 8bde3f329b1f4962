# ranks: 1
# cause: memory-limit
# remedy: fewer ranks

"""The same limit, met by a tensor."""

import resource

import torch

resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
torch.ones(1 << 33)
