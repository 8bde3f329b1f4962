# ranks: 2
# cause: ddp-unused-parameters
# remedy: find_unused_parameters=True
# author: independent
#
# what happens: The auxiliary head is used only for batches that contain labelled masks; rank 1's batch has none at step 3,
#   so its aux_head gets no gradient, the DDP bucket is never reduced there, and rank 1 raises at the next forward while rank 0 waits.
# cause a good tool would name: parameters (aux_head) took no part in the loss on rank 1 in this step, so DDP could not finish its gradient reduction.
# remedy a good tool would give: find_unused_parameters=True, or always run the head and multiply its loss by 0 when there are no masks.
# run: no option
import os
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(32, 32), nn.ReLU())
        self.cls_head = nn.Linear(32, 10)
        self.aux_head = nn.Linear(32, 4)

    def forward(self, x, mask=None):
        h = self.backbone(x)
        aux = self.aux_head(h[mask]) if mask is not None and mask.any() else None
        return self.cls_head(h), aux


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Net())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(10):
        x, y = torch.randn(8, 32), torch.randint(0, 10, (8,))
        mask = torch.ones(8, dtype=torch.bool)
        if rank == 1 and step == 3:
            mask[:] = False              # a batch without a single annotated mask
        out, aux = model(x, mask)
        loss = nn.functional.cross_entropy(out, y)
        if aux is not None:
            loss = loss + 0.1 * aux.pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"[{rank}] step {step} loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
