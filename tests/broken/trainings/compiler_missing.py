# ranks: 1
# options: --env PATH=/nonexistent --env CXX=no-such-compiler
# cause: compiler-missing
# remedy: install gcc and g++

"""torch.compile on a machine without a C++ compiler."""

import torch


@torch.compile
def step(x):
    return (x.sin() + x.cos()).sum()


step(torch.ones(64))
