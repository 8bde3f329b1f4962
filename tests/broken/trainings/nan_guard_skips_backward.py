# ranks: 3
# options: --no-progress-timeout 15
# cause: collective-mismatch
# says: rank 2
# remedy: same collectives
# author: independent
#
# what happens: One sample on rank 2 contains a zero, log(0) makes the loss infinite, and the usual "skip bad batch" guard runs
#   `continue` on that rank only. It has one backward fewer than the others and reaches the final barrier while they wait in backward.
# cause a good tool would name: rank 2 skipped one backward pass (non-finite loss), so the ranks are one gradient all-reduce apart: ranks 0 and 1 in backward, rank 2 in barrier.
# remedy a good tool would give: decide the skip together (all_reduce an is-finite flag with MIN) or zero the loss and still call backward; clean/clamp the data before log.
# run: stop after 5 s without progress (it hangs; the default process group timeout is 30 minutes)
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(1)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    gen = torch.Generator().manual_seed(rank)
    counts = torch.rand(12, 16, 8, generator=gen) + 0.1
    if rank == 2:
        counts[5, 3, 2] = 0.0            # an empty histogram bin in the raw data
    model = DDP(nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 1)))
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    for step, batch in enumerate(counts):
        x = batch.log()
        loss = (model(x) - batch.sum(1, keepdim=True)).pow(2).mean()
        if not torch.isfinite(loss):
            print(f"WARNING rank {rank} step {step}: loss is {loss.item()}, skipping batch", flush=True)
            continue
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        print(f"rank {rank} step {step} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    print(f"rank {rank} done", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
