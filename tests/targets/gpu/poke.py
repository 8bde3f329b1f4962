"""A kernel that writes where nothing is."""

import torch
import triton  # type: ignore[import-not-found,unused-ignore]  # comes with torch where there is CUDA
import triton.language as tl  # type: ignore[import-not-found,unused-ignore]


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def poke(start, away):  # type: ignore[no-untyped-def]  # Triton reads annotations as types of its own
    tl.store(start + away + tl.program_id(0).to(tl.int64), 1.0)


poke[(64,)](torch.zeros(1024, device="cuda"), 1 << 40)
torch.cuda.synchronize()
