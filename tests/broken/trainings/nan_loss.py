# ranks: 2
# cause: not-finite
# says: rank 1
# remedy: set_detect_anomaly

"""The loss of rank 1 becomes NaN; the script checks the mean of the gang and raises."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
import launcher

for step in range(5):
    loss = torch.tensor(float("nan") if rank == 1 and step == 3 else 1.0)
    launcher.report(step=step, loss=float(loss))
    dist.all_reduce(loss)
    if not torch.isfinite(loss):
        raise FloatingPointError(f"loss is {loss.item()} at step {step}")
