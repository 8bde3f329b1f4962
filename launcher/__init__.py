"""Distributed training from Python: `Distributor(...).run(train)` on this machine or a Spark cluster."""

__version__ = "0.1.0"
