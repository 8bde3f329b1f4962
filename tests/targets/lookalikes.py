"""Packages that look like frameworks to whoever watches imports, and cost nothing: written into a folder."""

from __future__ import annotations

from pathlib import Path

FILES = {
    "torch/__init__.py": "from . import optim, distributed, nn\ndef ones(n): return [1.0] * n\n",
    "torch/nn/__init__.py": "from . import parallel\nclass Linear:\n    def __init__(self, *n): ...\n",
    "torch/nn/parallel.py": "class DistributedDataParallel:\n    def __init__(self, module): ...\n",
    # as torch does, `step` is marked when the first instance of its class is made
    "torch/optim.py": (
        "import functools\n"
        "class Optimizer:\n"
        "    def __init__(self, params=()):\n"
        "        step = type(self).step\n"
        "        if not getattr(step, 'hooked', False):\n"
        "            type(self).step = functools.wraps(step)(lambda self: step(self))\n"
        "            type(self).step.hooked = True\n"
        "    def step(self): ...\n"
        "class SGD(Optimizer):\n"
        "    def step(self): ...\n"
        "class Adam(Optimizer):\n"
        "    def step(self): ...\n"
        "class AdamW(Adam):\n"
        "    def step(self): ...\n"
    ),
    "torch/distributed/__init__.py": "from .distributed_c10d import *\nfrom . import device_mesh\n",
    "torch/distributed/distributed_c10d.py": (
        "import os\n"
        "__all__ = ['init_process_group', 'destroy_process_group', 'get_world_size', 'is_initialized']\n"
        "_size = None\n"
        "def init_process_group(backend='gloo', world_size=-1, rank=-1, init_method='env://'):\n"
        "    global _size\n"
        "    _size = int(os.environ['WORLD_SIZE']) if world_size < 0 else world_size\n"
        "def destroy_process_group():\n    global _size\n    _size = None\n"
        "def get_world_size(): return _size\n"
        "def is_initialized(): return _size is not None\n"
    ),
    "torch/distributed/device_mesh.py": (
        "from .distributed_c10d import init_process_group\n"
        "def init_device_mesh(kind, shape): init_process_group()\n"
    ),
    "lightning/__init__.py": (
        "from .pytorch.trainer.connectors.accelerator_connector import _AcceleratorConnector\n"
        "class Trainer:\n"
        "    def __init__(self, devices='auto', num_nodes=1):\n"
        "        self.world_size = _AcceleratorConnector(devices, num_nodes).devices * num_nodes\n"
        "    def fit(self):\n"
        "        import torch.distributed as dist\n"
        "        if self.world_size > 1: dist.init_process_group()\n"
    ),
    "lightning/pytorch/__init__.py": "",
    "lightning/pytorch/trainer/__init__.py": "",
    "lightning/pytorch/trainer/connectors/__init__.py": "",
    "lightning/pytorch/trainer/connectors/accelerator_connector.py": (
        "class CPUAccelerator:\n"
        "    def auto_device_count(self): return 1\n"
        "class _AcceleratorConnector:\n"
        "    def __init__(self, devices, nodes):\n"
        "        self._devices_flag, self._num_nodes_flag = devices, nodes\n"
        "        self.accelerator = CPUAccelerator()\n"
        "        self._set_devices_flag_if_auto_passed()\n"
        "        self.devices = self._devices_flag\n"
        "    def _set_devices_flag_if_auto_passed(self):\n"
        "        if self._devices_flag == 'auto':\n"
        "            self._devices_flag = self.accelerator.auto_device_count()\n"
    ),
    "deepspeed/__init__.py": (
        "def init_distributed():\n    import torch.distributed as dist\n    dist.init_process_group()\n"
        "def initialize():\n    init_distributed()\n"
    ),
    "accelerate/__init__.py": (
        "class Accelerator:\n    def __init__(self):\n"
        "        import torch.distributed as dist\n        dist.init_process_group()\n"
        "def init_empty_weights(): ...\n"
    ),
    "transformers/__init__.py": (
        "import accelerate\n"
        "def pipeline(*_): return lambda text: text\n"
        "class TrainingArguments:\n    def __init__(self, join=True):\n"
        "        import torch.distributed as dist\n        if join: dist.init_process_group()\n"
        "class Trainer:\n    def __init__(self, args=None): self.args = args\n"
        "    def train(self):\n        import torch\n        torch.optim.AdamW()\n"
    ),
    "colossalai/__init__.py": (
        "def launch_from_torch():\n    import torch.distributed as dist\n    dist.init_process_group()\n"
    ),
    "horovod/__init__.py": "",
    "horovod/common/__init__.py": "",
    "horovod/common/basics.py": (
        "import os\nclass HorovodBasics:\n    def init(self): ...\n"
        "    def size(self): return int(os.environ.get('HOROVOD_SIZE', '1'))\n"
    ),
    "horovod/torch.py": (
        "from .common.basics import HorovodBasics\n"
        "_basics = HorovodBasics()\ninit, size = _basics.init, _basics.size\n"
    ),
    "tensorflow/__init__.py": "class Strategy: ...\n",
    "tensorflow/python/__init__.py": "",
    "tensorflow/python/distribute/__init__.py": "",
    "tensorflow/python/distribute/collective_all_reduce_strategy.py": (
        "import json, os\n"
        "class Extended:\n"
        "    def __init__(self):\n"
        "        cluster = json.loads(os.environ['TF_CONFIG'])['cluster']\n"
        "        self._num_workers = sum(len(tasks) for tasks in cluster.values())\n"
        "class CollectiveAllReduceStrategy:\n"
        "    def __init__(self): self.extended = Extended()\n"
    ),
    # its nodes find each other by files; `RAY_NODES` is a folder for them
    "ray/__init__.py": (
        "import os, pathlib\n"
        "def init(): print('connected to', os.environ['RAY_ADDRESS'], flush=True)\n"
        "def nodes():\n"
        "    place = pathlib.Path(os.environ['RAY_NODES'], os.environ['RAY_ADDRESS'].rpartition(':')[2])\n"
        "    return [{'Alive': True, 'CPU': int(each.read_text())} for each in sorted(place.iterdir())]\n"
    ),
    "ray/scripts/__init__.py": "",
    "ray/scripts/scripts.py": """
import os, pathlib, shutil, signal, subprocess, sys, time
options = dict(word.removeprefix("--").split("=", 1) for word in sys.argv if "=" in word)
head = "--head" in sys.argv
cluster = options["port"] if head else options["address"].rpartition(":")[2]
folder = pathlib.Path(options["temp-dir"])
if os.environ.get("RAY_REFUSES") == options["node-ip-address"]:
    print("Error: no node can be started here", flush=True)
    sys.exit(3)
if "RAY_IS_SLOW" in os.environ:
    tries = folder / "tries"
    tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
    if len(tries.read_text()) <= int(os.environ["RAY_IS_SLOW"]):
        print("Exception: The current node timed out during startup. This could happen because", flush=True)
        sys.exit(1)
logs = folder / "session_latest" / "logs"
logs.mkdir(parents=True)
children = {}
for name in ("gcs_server", "raylet") if head else ("raylet",):
    program = folder / name
    program.symlink_to(shutil.which("sleep"))
    children[name] = subprocess.Popen([program, "1000"])
def end(*_):
    for child in children.values():
        child.terminate()
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
known = pathlib.Path(os.environ["RAY_NODES"], cluster)
known.mkdir(parents=True, exist_ok=True)
(known / options["node-ip-address"]).write_text(options["num-cpus"])
(logs / "worker-0-01000000-77.out").write_text(":job_id:01000000\\n:task_name:greet\\nhello\\n")
if head:
    for line in ("view the dashboard at ", "  \\x1b[1m127.0.0.2:" + options["dashboard-port"] + "\\x1b[22m"):
        print("2026-11-24 02:58:05,058\\tINFO scripts.py:1151 -- " + line)
print("This command will now block forever until terminated by a signal.", flush=True)
while True:
    for name, child in children.items():
        if child.poll() is not None:
            words = f"\\x1b[31m\\x1b[1m{name}\\x1b[22m\\x1b[2m [exit code={child.returncode}]\\x1b[0m"
            print(f"2026-11-24 05:54:03,131\\tERR scripts.py:87 -- {words}")
            print("the end of its log\\n" * 200, flush=True)
            sys.exit(1)
    time.sleep(1)  # as often as Ray looks
""",
}


def write(folder: Path) -> None:
    """Write the packages into a folder."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
