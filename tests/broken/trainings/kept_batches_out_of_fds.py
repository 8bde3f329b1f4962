# ranks: 2
# cause: too-many-files
# remedy: file_system
# author: independent
#
# what happens: The script keeps every validation batch that the DataLoader workers hand over; each tensor is a shared-memory
#   file descriptor, and the soft limit on open files (as in a container with a low ulimit) is used up.
# cause a good tool would name: the process ran out of file descriptors (ulimit -n), because worker batches shared by file descriptor are kept.
# remedy a good tool would give: raise ulimit -n, torch.multiprocessing.set_sharing_strategy("file_system"), or clone the batches before keeping them.
# run: no option (the script sets its own soft limit of 160 to stand for the container's)
import resource
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

torch.set_num_threads(1)
resource.setrlimit(resource.RLIMIT_NOFILE, (160, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


class Pairs(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, i):
        return torch.randn(16), torch.randn(1), torch.tensor(i)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    data = Pairs()
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data, shuffle=False), num_workers=1)
    model = DDP(nn.Linear(16, 1))
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    seen = []
    for step, (x, y, idx) in enumerate(loader):
        loss = (model(x) - y).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
        seen.append((idx, y))            # for the report at the end of the epoch
        if step % 10 == 0:
            print(f"rank {rank} step {step} loss {loss.item():.4f}", flush=True)
    print(rank, torch.cat([i for i, _ in seen]).numel(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
