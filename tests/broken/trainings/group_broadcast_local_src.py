# ranks: 4
# cause: rank-outside-group
# remedy: group_src
# author: independent
#
# what happens: Two replicas of two tensor-parallel ranks; every group broadcasts its batch with src=0, meaning "first in my group".
#   src is a global rank, so groups [2,3] fail with ValueError, and ranks 0 and 1 then lose their peers in the next world all_reduce.
# cause a good tool would name: ranks 2 and 3 called broadcast(src=0, group=[2,3]); src must be a global rank that belongs to the group.
# remedy a good tool would give: group_src=0 instead of src=0, or src=dist.get_global_rank(group, 0).
# run: no option
# observed: ranks 2 and 3: ValueError: Global rank 0 is not part of group <torch.distributed.distributed_c10d.ProcessGroup object at 0x...> (in dist.broadcast), exit code 1; ranks 0 and 1: SIGTERM from torchrun
import torch, torch.distributed as dist
from torch import nn

torch.set_num_threads(1)
TP = 2


class ColumnParallel(nn.Module):
    def __init__(self, group):
        super().__init__()
        self.group, self.local = group, nn.Linear(16, 16 // TP)

    def forward(self, x):
        dist.broadcast(x, src=0, group=self.group)       # all ranks of a replica see the same batch
        part = self.local(x)
        parts = [torch.empty_like(part) for _ in range(TP)]
        dist.all_gather(parts, part.detach(), group=self.group)
        return torch.cat(parts, -1)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    groups = [dist.new_group(list(range(i, i + TP))) for i in range(0, world, TP)]
    layer = ColumnParallel(groups[rank // TP])
    for step in range(5):
        norm = layer(torch.randn(4, 16)).norm()
        dist.all_reduce(norm)
        print(f"rank {rank} step {step} {norm.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
