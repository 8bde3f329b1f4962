"""The notebook extension: ``%load_ext launcher.notebook`` brings the cell magic ``%%ranks``."""

from __future__ import annotations

from typing import Any

_MAGIC = "ranks"


def load_ipython_extension(shell: Any) -> None:
    """Add the magic; IPython calls this."""
    from .magic import magic_of

    shell.register_magic_function(magic_of(shell), "cell", _MAGIC)


def unload_ipython_extension(shell: Any) -> None:
    """Remove it again."""
    shell.magics_manager.magics["cell"].pop(_MAGIC, None)
