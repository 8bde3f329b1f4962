"""A program for `ray.util.spark`: it works on all nodes of a cluster, and takes the cluster down.

Usage: SETTINGS PACKAGES [stay]. SETTINGS are Spark's, in JSON. PACKAGES is a folder to import from last, in
which pyspark is. With `stay`, it says `ready` and waits for its end.
"""

import json
import os
import sys
import time

sys.path.append(sys.argv[2])

import ray
from pyspark.sql import SparkSession

import launcher.compat


def where() -> str:
    """The node that works on it."""
    time.sleep(0.5)
    return str(ray.get_runtime_context().get_node_id())


def main() -> None:
    builder = SparkSession.builder.appName("a user's program")
    for name, text in json.loads(sys.argv[1]).items():
        builder = builder.config(name, text)
    spark = builder.getOrCreate()
    with launcher.compat.installed():
        from ray.util.spark import setup_ray_cluster, shutdown_ray_cluster

        memory = 100_000_000
        address, client = setup_ray_cluster(
            max_worker_nodes=2,
            num_cpus_worker_node=1,
            object_store_memory_worker_node=memory,
            object_store_memory_head_node=memory,
        )
        ray.init()
        if sys.argv[3:] == ["stay"]:
            print("ready", flush=True)
            time.sleep(3600)
        nodes = {node["NodeID"]: node["Resources"].get("CPU", 0) for node in ray.nodes()}
        task = ray.remote(num_cpus=1)(where)
        worked = set(ray.get([task.remote() for _ in range(8)]))
        ray.shutdown()
        shutdown_ray_cluster()
    told = {
        "cpus": sorted(nodes.values()),
        "worked": sorted(nodes[node] for node in worked),
        "address": address,
        "client": client,
        "left": [name for name in os.environ if name.startswith(("RAY_ADDRESS", "RAY_AUTH"))],
    }
    print(json.dumps(told), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
