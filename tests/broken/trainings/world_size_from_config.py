# ranks: 2
# cause: ranks-missing
# says: rank 2, and the gang has 2 ranks
# remedy: world_size
# author: independent
#
# what happens: The config file still says 4 processes (from the big machine) and the script passes that as world_size; only 2
#   were launched, so init_process_group waits for ranks that do not exist until its timeout.
# cause a good tool would name: init_process_group was given world_size=4, but the launcher started only 2 processes (WORLD_SIZE=2).
# remedy a good tool would give: take the world size from the environment (leave out world_size and rank), or start 4 processes.
# run: no option (timeout of 8 s in the script)
import json, os
from datetime import timedelta
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(1)
CONFIG = json.loads('{"dist": {"backend": "gloo", "world_size": 4, "timeout_s": 8}, "lr": 0.01, "steps": 5}')


def setup(cfg):
    dist.init_process_group(
        backend=cfg["backend"],
        world_size=cfg["world_size"],
        rank=int(os.environ["RANK"]),
        timeout=timedelta(seconds=cfg["timeout_s"]),
    )


def main():
    setup(CONFIG["dist"])
    model = DDP(nn.Linear(8, 1))
    opt = torch.optim.SGD(model.parameters(), lr=CONFIG["lr"])
    for step in range(CONFIG["steps"]):
        loss = model(torch.randn(4, 8)).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
