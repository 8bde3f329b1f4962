# ranks: 2
# options: --no-progress-timeout 15
# cause: thread-keeps-alive
# says: thread
# remedy: daemon=True
# author: independent
#
# what happens: Training ends and all ranks print "done", but rank 0's asynchronous metrics writer is a non-daemon thread waiting
#   on its queue; nobody sends the stop marker, so rank 0 never exits and the job sits there after the last step.
# cause a good tool would name: rank 0 finished its main program but cannot exit: the interpreter waits for the non-daemon thread "metrics-writer" (queue.get). Rank 1 exited normally.
# remedy a good tool would give: put a stop marker and join the thread at the end (finally:), or make it daemon=True.
# run: stop after 5 s without progress (it never ends)
import json, os, queue, threading
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(1)


class MetricsWriter:
    def __init__(self, path):
        self.q, self.file = queue.Queue(), open(path, "w")
        self.thread = threading.Thread(target=self.run, name="metrics-writer")
        self.thread.start()

    def run(self):
        while (row := self.q.get()) is not None:
            self.file.write(json.dumps(row) + "\n")
        self.file.close()

    def log(self, **row):
        self.q.put(row)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    writer = MetricsWriter(os.devnull) if rank == 0 else None
    model = DDP(nn.Linear(8, 1))
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(10):
        loss = model(torch.randn(4, 8)).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
        if writer:
            writer.log(step=step, loss=loss.item())
    dist.barrier()
    dist.destroy_process_group()
    print(f"rank {rank}: training done", flush=True)


if __name__ == "__main__":
    main()
