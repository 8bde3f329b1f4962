# ranks: 3
# cause: collective-timeout
# says: rank 0
# remedy: timeout
# author: independent
#
# what happens: Rank 0 tokenises the corpus and writes a cache while the others wait at a barrier; that takes longer than
#   the process group timeout, so the waiting ranks fail though nothing is wrong with them.
# cause a good tool would name: ranks 1 and 2 timed out at a barrier because rank 0 was still in its dataset preparation (build_cache), not dead; the timeout of 4 s is shorter than that work.
# remedy a good tool would give: raise init_process_group(timeout=...), or build the cache before the launch / before init_process_group.
# run: no option
# observed: rank 1: RuntimeError: [.../gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 4000ms for recv operation to complete (in dist.barrier())
# observed: rank 2: RuntimeError: [.../unbound_buffer.cc:129] Timed out waiting 4000ms for send operation to complete; rank 0 still prints "tokenizing: 600/1200"
import hashlib, os, tempfile, time
from datetime import timedelta
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(1)


def tokenize(line):
    time.sleep(0.01)                       # stands for a slow pure-Python tokenizer
    return [b for b in hashlib.sha256(line.encode()).digest()]


def build_cache(path, lines):
    rows = []
    for n, line in enumerate(lines):
        rows.append(tokenize(line))
        if n % 200 == 0:
            print(f"tokenizing: {n}/{len(lines)}", flush=True)
    torch.save(torch.tensor(rows), path)


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=4))
    rank = dist.get_rank()
    path = os.path.join(tempfile.gettempdir(), f"tokens_{os.environ['MASTER_PORT']}.pt")
    if rank == 0:
        build_cache(path, [f"document {i}" for i in range(1200)])
    dist.barrier()
    tokens = torch.load(path)
    model = DDP(nn.Sequential(nn.Embedding(256, 16), nn.Linear(16, 256)))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step, row in enumerate(tokens[rank::dist.get_world_size()][:20]):
        loss = nn.functional.cross_entropy(model(row[:-1]), row[1:])
        opt.zero_grad(); loss.backward(); opt.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
