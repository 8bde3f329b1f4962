"""What a fresh rank has imported when its target begins. A zygote imports this module before all others."""

from __future__ import annotations

import sys

from .. import rank_main  # noqa: F401  the first module of a rank


def packages() -> frozenset[str]:
    """The top-level names that this process has imported."""
    return frozenset(name.partition(".")[0] for name in sys.modules)


PACKAGES = packages()
