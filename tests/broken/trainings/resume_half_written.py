# ranks: 2
# cause: checkpoint-torn
# remedy: os.replace
# author: independent
#
# what happens: Rank 0 copies the checkpoint from local scratch to the shared directory; rank 1 waits only until the file
#   exists and loads it while it is still being written, and torch.load finds a truncated zip archive.
# cause a good tool would name: rank 1 read a checkpoint that is incomplete, because rank 0 was still writing it (no barrier, no atomic rename).
# remedy a good tool would give: write to a temporary name and os.replace() it, and dist.barrier() between the save and the load.
# run: no option
# observed: rank 1: RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory (in torch.load); rank 0 gets SIGTERM from torchrun while it still copies
import os, shutil, tempfile, time
import torch, torch.distributed as dist
from torch import nn

torch.set_num_threads(1)
SHARED = os.path.join(tempfile.gettempdir(), f"shared_ckpt_{os.environ['MASTER_PORT']}")


def copy_to_shared(src, dst):
    with open(src, "rb") as f, open(dst, "wb") as g:      # NFS on a bad day
        while chunk := f.read(64 * 1024):
            g.write(chunk); g.flush()
            time.sleep(0.05)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(4)])
    path = os.path.join(SHARED, "step_100.pt")
    if rank == 0:
        shutil.rmtree(SHARED, ignore_errors=True)
        os.makedirs(SHARED)
    dist.barrier()
    if rank == 0:
        local = tempfile.mktemp(suffix=".pt")
        torch.save({"model": model.state_dict(), "step": 100}, local)
        copy_to_shared(local, path)
        os.remove(local)
    else:
        while not os.path.exists(path):
            time.sleep(0.1)
    ckpt = torch.load(path, map_location="cpu")
    model.load_state_dict(ckpt["model"])
    dist.barrier()
    print(f"rank {rank}: resumed at step {ckpt['step']}", flush=True)
    if rank == 0:
        shutil.rmtree(SHARED)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
