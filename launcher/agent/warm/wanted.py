"""Which modules a zygote imports for a target, by the text of the target's source. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

TORCH = ("torch", "torch.distributed", "torch.nn.parallel", "torch.utils.data", "numpy")
"""What a zygote imports for every target that imports torch."""
_FORKABLE = frozenset({"torch", "numpy"})
_UNFORKABLE = frozenset({"tensorflow", "keras", "tf_keras", "jax", "ray"})
_IMPORTS = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import\b|import[ \t]+([\w., \t]+))", re.MULTILINE)


def modules_of(source: str) -> tuple[str, ...] | None:
    """The modules for the zygote of a target; None if the target imports what must not be forked."""
    named = list(_imported(source))
    packages = {name.partition(".")[0] for name in named}
    if not packages.isdisjoint(_UNFORKABLE):
        return None
    always = TORCH if "torch" in packages else ()
    return tuple(dict.fromkeys((*always, *(n for n in named if n.partition(".")[0] in _FORKABLE))))


def _imported(source: str) -> Iterator[str]:
    for found in _IMPORTS.finditer(source):
        for part in (found[1] or found[2]).split(","):
            yield from part.split()[:1]
