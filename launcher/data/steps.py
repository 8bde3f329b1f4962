"""How many steps ranks take whose shares differ: as many on all, so that no collective hangs. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ..errors import SpecError
from .shares import Agreed


class Uneven(StrEnum):
    """What happens where ranks have different numbers of rows."""

    DROP = "drop"
    PAD = "pad"
    REPEAT = "repeat"
    OWN = "own"


MEANINGS = {
    Uneven.DROP: "all ranks end with the shortest share; rows beyond it are not used",
    Uneven.PAD: "all rows are used once; ranks that have no more get rows of zeros, told by `valid`",
    Uneven.REPEAT: "all rows are used; ranks that have no more begin again",
    Uneven.OWN: "each rank has as many steps as its share gives, which only suits ranks that do not meet",
}


def require_size(name: str, value: object) -> None:
    """Refuse what is no number of rows.

    Raises:
        SpecError: it is no whole number above 0.
    """
    if type(value) is not int or value < 1:
        raise SpecError(f"{name} is a number of rows, not {value!r}")


def policy(name: str) -> Uneven:
    """The policy with this name.

    Raises:
        SpecError: there is none.
    """
    try:
        return Uneven(name)
    except ValueError:
        raise SpecError(f"uneven must be one of {', '.join(Uneven)}, not {name!r}") from None


@dataclass(frozen=True, slots=True)
class Held:
    """What one task has said of its shares.

    Attributes:
        rows: the rows of each so far.
        complete: whether there will be no more.
    """

    rows: tuple[int, ...]
    complete: bool


def agree(tasks: Iterable[Held | None]) -> Agreed:
    """What the shares of all tasks have in common; None for a task that has said nothing yet."""
    held = list(tasks)
    known = [each for each in held if each is not None]
    all_known = len(known) == len(held)
    rows = [rows for each in known for rows in each.rows]
    least = min(rows, default=0) if all_known else 0
    ended = [rows for each in known if each.complete for rows in each.rows]
    return Agreed(
        least=least,
        least_final=all_known and least in ended,
        most=max(rows, default=0),
        most_final=all_known and all(each.complete for each in known),
    )


def rows_from(
    start: int, count: int, uneven: Uneven, agreed: Agreed, own: int, *, complete: bool
) -> int | None:
    """How many of the `count` rows from `start` on each rank gives: fewer at an epoch's end, 0 after it.

    None if that is not known yet.

    Args:
        start: the row, counted on each rank from the beginning of the epoch.
        count: the rows wanted.
        uneven: the policy.
        agreed: what is known of all shares.
        own: the rows of this rank's share so far.
        complete: whether it will have no more.
    """
    match uneven:
        case Uneven.DROP:
            known, final = agreed.least, agreed.least_final
        case Uneven.OWN:
            known, final = own, complete
        case _:
            known, final = max(agreed.most, own), agreed.most_final
    left = known - start
    if left >= count:
        return count
    return max(left, 0) if final else None
