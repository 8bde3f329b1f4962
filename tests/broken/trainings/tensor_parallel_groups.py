# ranks: 4
# options: --no-progress-timeout 15
# cause: collective-mismatch
# remedy: new_group
# author: independent
#
# what happens: Each rank creates only the tensor-parallel group to which it belongs ([0,1] or [2,3]); new_group must be
#   called by all ranks for all groups in the same order, so the two groups get the same name and mix up their rendezvous.
# cause a good tool would name: new_group was called with different rank lists on different ranks (only for the own group).
# remedy a good tool would give: loop over all groups on all ranks and keep the own one, use dist.new_subgroups / init_device_mesh, or use_local_synchronization=True.
# run: stop after 5 s without progress
from datetime import timedelta
import torch, torch.distributed as dist
from torch import nn

torch.set_num_threads(1)
TP = 2


class ColumnParallel(nn.Module):
    def __init__(self, group):
        super().__init__()
        self.group, self.local = group, nn.Linear(16, 16 // TP)

    def forward(self, x):
        part = self.local(x)
        parts = [torch.empty_like(part) for _ in range(TP)]
        dist.all_gather(parts, part.detach(), group=self.group)
        return torch.cat(parts, -1)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    first = rank // TP * TP
    print(f"rank {rank}: building tp group {first}..{first + TP - 1}", flush=True)
    group = dist.new_group(list(range(first, first + TP)))
    layer = ColumnParallel(group)
    for step in range(5):
        out = layer(torch.randn(4, 16))
        check = out.sum()
        dist.all_reduce(check)
        print(f"rank {rank} step {step} {check.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
