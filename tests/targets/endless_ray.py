"""Work on every Ray node that never ends by itself.

Usage: ENDING. The worker of every node says `ready`. Then the driver raises an error if the ending is `fail`,
and a worker does if it is `worker`.
"""

import sys
import time

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


class Worker:
    """What works on one node."""

    def begin(self) -> None:
        print("ready", flush=True)

    def go_on(self, fails: bool) -> None:
        while not fails:
            time.sleep(3600)
        raise RuntimeError("bad luck")


def main(ending: str) -> None:
    ray.init()
    nodes = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in ray.nodes()]
    actor = ray.remote(num_cpus=1)(Worker)
    workers = [actor.options(scheduling_strategy=node).remote() for node in nodes]
    ray.get([worker.begin.remote() for worker in workers])
    print(f"{len(workers)} workers are ready", flush=True)
    if ending == "fail":
        raise RuntimeError("bad luck")
    ray.get([worker.go_on.remote(ending == "worker") for worker in workers])


if __name__ == "__main__":
    main(sys.argv[1])
