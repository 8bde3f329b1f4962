"""How an entry matches what was typed, which letters are marked, and which entries come first. Pure.

Every typed word must match. The whole name is better than its start, that is better than the start of a word
in it, then come letters inside a word, the start of a word in the description, and letters scattered over the
name in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from itertools import chain, islice
from operator import itemgetter

from .entry import KINDS, PLACES, BarEntry, Kind, Wanted

_USED, _EACH = 5, 6
"""While nothing is typed: how many of the most used entries come first, and how many of each kind follow."""


class Fit(IntEnum):
    """How well a word fits, the best first."""

    WHOLE = 0
    START = 1
    WORD = 2
    INSIDE = 3
    ABOUT = 4
    SCATTERED = 5


def fit(word: str, name: str, about: str) -> Fit | None:
    """How a word fits an entry; None if it does not. All texts are in lower case."""
    at = name.find(word)
    if at == 0:
        return Fit.WHOLE if len(word) == len(name) else Fit.START
    if at > 0:
        return Fit.WORD if _word_start(word, name, at) >= 0 else Fit.INSIDE
    if about and (found := about.find(word)) >= 0 and _word_start(word, about, found) >= 0:
        return Fit.ABOUT
    return Fit.SCATTERED if len(word) > 1 and _scattered(word, name) else None


def _word_start(word: str, text: str, at: int) -> int:
    """The first place at or after `at` where the word begins a word of the text; -1 if there is none."""
    while at > 0 and text[at - 1].isalnum():
        at = text.find(word, at + 1)
    return at


def _scattered(word: str, text: str) -> bool:
    at = -1
    for letter in word:  # a regular expression for this could take exponential time
        at = text.find(letter, at + 1)
        if at < 0:
            return False
    return True


def marked(entry: BarEntry, words: Iterable[str]) -> tuple[frozenset[int], frozenset[int]]:
    """The places of the letters that matched: in the name, and in the description."""
    name, about = entry.sought
    in_name: set[int] = set()
    in_about: set[int] = set()
    for word in words:
        how = fit(word, name, about)
        if how is Fit.ABOUT:
            start = _word_start(word, about, about.find(word))
            in_about.update(range(start, start + len(word)))
        elif how is Fit.SCATTERED:
            in_name.update(_places(word, name))
        elif how is not None:
            start = name.find(word)
            better = _word_start(word, name, start)
            start = better if better >= 0 else start
            in_name.update(range(start, start + len(word)))
    return frozenset(in_name), frozenset(in_about)


def _places(word: str, text: str) -> list[int]:
    """The places of scattered letters: taken from the end, which keeps them closest to the last one."""
    at = -1
    for letter in word:
        at = text.find(letter, at + 1)
    places = [at]
    for letter in reversed(word[:-1]):
        at = text.rfind(letter, 0, at)
        places.append(at)
    return places


class Catalogue:
    """All entries, by kind and in the order in which they came; narrowed to what was typed.

    A query that goes on from the last one searches only what that one found. Used by one thread.
    """

    def __init__(self) -> None:
        self._groups: dict[Kind, dict[str, BarEntry]] = {kind: {} for kind in KINDS}
        self._last: tuple[Wanted, list[BarEntry]] | None = None

    def add(self, entries: Iterable[BarEntry]) -> None:
        """Add entries. One that is there already stays in its place, and is replaced."""
        for each in entries:
            self._groups[each.kind][each.does] = each
        self._last = None

    def count(self, kind: Kind) -> int:
        """How many entries of a kind there are."""
        return len(self._groups[kind])

    def narrowed(self, query: Wanted, weights: Mapping[str, float]) -> list[BarEntry]:
        """The entries that match, the best first, and of equally good ones the most used.

        While nothing is typed, the most used ones come first, then some of each kind; of one kind, all.
        """
        if not query.words:
            self._last = None
            return self._all_of(query.kind, weights) if query.kind else self._overview(weights)
        uses = _by_kind(weights)
        found = []
        for each in self._searched(query):
            if (how := _worst_fit(query.words, each)) is not None:
                used = uses[each.kind].get(each.does, 0.0) if uses else 0.0
                found.append((how, -used, PLACES[each.kind], each))
        self._last = (query, [each for *_, each in found])
        # the sort is stable: entries that are alike in all this stay in the order in which they came
        found.sort(key=_ORDER)
        return [each for *_, each in found]

    def _searched(self, query: Wanted) -> Iterable[BarEntry]:
        if self._last is not None and _goes_on(self._last[0], query):
            return self._last[1]
        groups = [self._groups[query.kind]] if query.kind else self._groups.values()
        return chain.from_iterable(group.values() for group in groups)

    def _all_of(self, kind: Kind, weights: Mapping[str, float]) -> list[BarEntry]:
        uses = _by_kind(weights)
        listed = list(self._groups[kind].values())
        return sorted(listed, key=lambda each: -uses[kind].get(each.does, 0.0)) if uses else listed

    def _overview(self, weights: Mapping[str, float]) -> list[BarEntry]:
        used = sorted(((weight, name) for name, weight in weights.items()), reverse=True)
        found = (self._by_use(name) for _, name in used)
        first = list(islice((each for each in found if each is not None), _USED))
        rest = chain.from_iterable(islice(group.values(), _EACH) for group in self._groups.values())
        return [*first, *(each for each in rest if each not in first)]

    def _by_use(self, used_as: str) -> BarEntry | None:
        kind, _, does = used_as.partition(":")
        return self._groups[Kind(kind)].get(does) if kind in PLACES else None


_ORDER = itemgetter(0, 1, 2)


def _worst_fit(words: Sequence[str], each: BarEntry) -> Fit | None:
    """How the worst of the words fits an entry; None if one does not."""
    worst = Fit.WHOLE
    for word in words:
        how = fit(word, *each.sought)
        if how is None:
            return None
        if how > worst:
            worst = how
    return worst


def _by_kind(weights: Mapping[str, float]) -> dict[Kind, dict[str, float]]:
    """The weights by kind and by what identifies an entry; empty if there are none."""
    found: dict[Kind, dict[str, float]] = {kind: {} for kind in KINDS} if weights else {}
    for name, weight in weights.items():
        kind, _, does = name.partition(":")
        if kind in PLACES:
            found[Kind(kind)][does] = weight
    return found


def _goes_on(last: Wanted, query: Wanted) -> bool:
    """Whether whatever matches `query` also matched `last`.

    A word that goes on may fit better than before, but never where its beginning did not fit.
    """
    if query.kind is not last.kind or len(query.words) < len(last.words):
        return False
    pairs: Sequence[tuple[str, str]] = list(zip(last.words, query.words, strict=False))
    return all(now.startswith(before) for before, now in pairs)
