# ranks: 2
# options: --no-progress-timeout 15
# cause: loader-stuck
# remedy: spawn
# author: independent
#
# what happens: Epoch 0 is fine; a background thread then refreshes a vocabulary cache under a lock, and the DataLoader workers
#   forked for epoch 1 inherit that lock in the locked state. The workers wait for ever, and so does every rank in next(loader).
# cause a good tool would name: the ranks wait for DataLoader workers, and the workers are stuck taking a lock that a thread of the parent held when they were forked.
# remedy a good tool would give: start workers before threads (persistent_workers=True), or multiprocessing_context="spawn"/"forkserver"; set DataLoader(timeout=...) so it fails instead of hanging.
# run: stop after 5 s without progress (it never ends on its own)
import os, threading, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

torch.set_num_threads(1)
CACHE, CACHE_LOCK = {}, threading.Lock()


def lookup(i):
    with CACHE_LOCK:
        return CACHE.setdefault(i, float(i % 7))


def refresh_forever():
    while True:
        with CACHE_LOCK:
            CACHE.clear()
            time.sleep(0.5)      # re-reads a vocabulary file from slow storage
        time.sleep(0.0005)


class Text(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.full((16,), lookup(i)), torch.tensor([1.0])


def main():
    dist.init_process_group("gloo")
    model = DDP(torch.nn.Linear(16, 1))
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = Text()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=1)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for step, (x, y) in enumerate(loader):
            loss = (model(x) - y).pow(2).mean()
            opt.zero_grad(); loss.backward(); opt.step()
            print(f"rank {dist.get_rank()} epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        if epoch == 0:
            threading.Thread(target=refresh_forever, daemon=True).start()
            time.sleep(0.05)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
