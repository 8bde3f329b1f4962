"""Lightning: torchrun's contract, which its environment plug-in recognises by TORCHELASTIC_RUN_ID.

On the CPU, ``devices="auto"``, its default, means one process whatever the environment says: N ranks would
be N trainings, each of which ends well. In ranks it is therefore taken as torchrun's contract means it: every
process of the world. A number in a script is left alone; Lightning itself refuses those that do not fit.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable
from typing import Any

from .base import Framework, importing
from .torch import CONTRACT

_CONNECTORS = {
    "lightning.pytorch.trainer.connectors.accelerator_connector": "_AcceleratorConnector",
    "lightning.fabric.connector": "_Connector",
    "pytorch_lightning.trainer.connectors.accelerator_connector": "_AcceleratorConnector",
    "lightning_fabric.connector": "_Connector",
}
_SETTER = "_set_devices_flag_if_auto_passed"


def on_import(module: types.ModuleType, joined: Callable[[int], None]) -> None:
    """Let a Trainer or Fabric on the CPU that is to count its devices count the processes of the world."""
    del joined
    connector = getattr(module, _CONNECTORS[module.__name__], None)
    original = getattr(connector, _SETTER, None)
    if original is None:  # another version, which may count in another place
        return

    def set_devices(self: Any) -> None:
        count = _processes_a_node(self)
        if count and self._devices_flag == "auto" and type(self.accelerator).__name__ == "CPUAccelerator":
            self._devices_flag = count
        original(self)

    setattr(connector, _SETTER, set_devices)


def _processes_a_node(connector: Any) -> int:
    """How many processes Lightning must expect on each of its nodes; 0 if they do not come out even."""
    world, nodes = int(os.environ.get("WORLD_SIZE", "0")), int(connector._num_nodes_flag)  # noqa: SLF001  no other way
    return world // nodes if nodes > 0 and world % nodes == 0 else 0


LIGHTNING = Framework(
    "lightning",
    matches=importing("lightning", "pytorch_lightning", "lightning_fabric"),
    **CONTRACT,
    packages=("lightning", "pytorch_lightning", "lightning_fabric"),
    watches=tuple(_CONNECTORS),
    cure="give the Trainer devices=LOCAL_WORLD_SIZE and num_nodes=GROUP_WORLD_SIZE of the environment",
)
