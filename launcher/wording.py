"""Lists of names in sentences, cut so that a thousand hosts still make one line."""

from __future__ import annotations

from collections.abc import Sequence


def listed(names: Sequence[str], *, most: int = 5, joint: str = ", ", last: str = " and ") -> str:
    """The names as one would say them: ``a, b and c``, and ``a, b and 998 more`` beyond `most`.

    One more than `most` is named all the same: "1 more" would be no shorter.
    """
    if len(names) > most + 1:
        names = [*names[:most], f"{len(names) - most} more"]
    return joint.join(names[:-1]) + last + names[-1] if len(names) > 1 else "".join(names)
