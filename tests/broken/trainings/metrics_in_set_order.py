# ranks: 2
# options: --fresh --no-progress-timeout 20
# cause: collective-mismatch or standstill
# author: independent
#
# what happens: The metric names are a set of strings, and Python's hash seed differs per process, so each rank reduces the
#   metrics in its own order; a scalar meets a confusion matrix and gloo sees messages of unequal size.
# cause a good tool would name: the ranks called all_reduce with tensors of different sizes at the same place, i.e. in different orders (iteration over a set).
# remedy a good tool would give: iterate over sorted(names) (or a list/dict), so that all ranks reduce in the same order; PYTHONHASHSEED=0 only hides it.
# run: no option (by chance the orders may agree, about 1 in 5000; run it again then; PYTHONHASHSEED must not be set)
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(1)
CLASSES = 40


def evaluate(model):
    shapes = {"loss": (1,), "top1": (2,), "top5": (5,), "per_class": (CLASSES,), "confusion": (CLASSES, CLASSES),
              "calibration": (15, 3), "lengths": (128,)}
    wanted = {"loss", "top1", "top5", "per_class", "confusion", "calibration", "lengths"}
    meters = {n: torch.zeros(shapes[n]) for n in wanted}
    with torch.no_grad():
        for _ in range(4):
            meters["loss"] += model.module(torch.randn(8, 20)).mean()
    for name in wanted:
        dist.all_reduce(meters[name])
    return {n: m.mean().item() for n, m in meters.items()}


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DDP(nn.Linear(20, CLASSES))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for step in range(5):
            loss = nn.functional.cross_entropy(model(torch.randn(8, 20)), torch.randint(0, CLASSES, (8,)))
            opt.zero_grad(); loss.backward(); opt.step()
        print(f"rank {rank} epoch {epoch} loss {loss.item():.3f}, evaluating", flush=True)
        print(rank, evaluate(model), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
