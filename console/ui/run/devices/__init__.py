"""The pane of devices: how much the GPUs, or the processors, of all ranks are used now and were lately."""
