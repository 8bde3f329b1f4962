"""How entries match what is typed, which letters are marked, and in which order they come."""

from __future__ import annotations

import pytest

from console.data.finding.entry import KINDS, MOST_TEXT, Kind, Wanted, entry, wanted
from console.data.finding.matching import Catalogue, Fit, fit, marked


@pytest.mark.parametrize(
    ("word", "name", "about", "how"),
    [
        ("3", "3", "", Fit.WHOLE),
        ("3", "30", "", Fit.START),
        ("ft", "llama-ft", "", Fit.WORD),
        ("am", "llama-amp", "", Fit.WORD),
        ("la", "llama", "", Fit.INSIDE),
        ("boom", "llama", "failed · boom", Fit.ABOUT),
        ("oom", "llama", "failed · boom", None),
        ("lft", "llama-ft", "", Fit.SCATTERED),
        ("tf", "llama-ft", "", None),
        ("x", "llama", "", None),
    ],
)
def test_a_word_fits(word: str, name: str, about: str, how: Fit | None) -> None:
    assert how == fit(word, name, about)


def test_the_order_of_fits_is_from_whole_to_scattered() -> None:
    names = ["r-a-n-k", "crank", "my-rank", "ranks", "rank"]
    catalogue = Catalogue()
    catalogue.add(entry(Kind.RUN, name, name) for name in names)
    catalogue.add([entry(Kind.RUN, "told", "other", "a rank")])

    found = [each.name for each in catalogue.narrowed(wanted("rank"), {})]

    assert ["rank", "ranks", "my-rank", "crank", "other", "r-a-n-k"] == found


@pytest.mark.parametrize(
    ("typed", "name", "about", "marks"),
    [
        ("FT", "llama-ft", "", "llama-[f][t]"),
        ("am", "llama", "", "ll[a][m]a"),
        ("am", "llama-am", "", "llama-[a][m]"),  # the start of a word is better than letters inside one
        ("aft", "la-ma-ft", "", "la-m[a]-[f][t]"),  # scattered letters are as close as they can be
        ("boom ll", "llama", "a boom", "[l][l]ama a [b][o][o][m]"),
    ],
)
def test_the_letters_that_matched_are_marked(typed: str, name: str, about: str, marks: str) -> None:
    found = marked(entry(Kind.RUN, name, name, about), wanted(typed).words)
    shown = [
        "".join(f"[{c}]" if i in at else c for i, c in enumerate(text))
        for text, at in zip((name, about), found, strict=True)
    ]

    assert marks == " ".join(filter(None, shown))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("", Wanted()),
        ("run", Wanted(None, ("run",))),
        ("run ", Wanted(Kind.RUN)),
        ("  Runs Llama FT ", Wanted(Kind.RUN, ("llama", "ft"))),
        ("rank 3", Wanted(Kind.RANK, ("3",))),
        ("theme  paper", Wanted(Kind.THEME, ("paper",))),
        ("train run", Wanted(None, ("train", "run"))),
    ],
)
def test_a_kind_narrows_once_a_space_follows_it(text: str, meant: Wanted) -> None:
    assert meant == wanted(text)


def full() -> Catalogue:
    catalogue = Catalogue()
    for kind in KINDS:
        catalogue.add(entry(kind, str(n), f"{kind.value}-{n}") for n in range(20))
    return catalogue


def test_while_nothing_is_typed_the_most_used_come_first_and_then_some_of_each_kind() -> None:
    weights = {"theme:7": 3.0, "run:5": 9.0, "run:gone": 99.0, "bogus": 5.0, "nokind:1": 5.0}

    found = full().narrowed(wanted(""), weights)

    assert ["run-5", "theme-7"] == [each.name for each in found[:2]]
    assert list(KINDS) == list(dict.fromkeys(each.kind for each in found[2:]))
    assert len(found) < 100
    assert len(found) == len(set(found)), "none is there twice"


def test_of_equally_good_entries_the_most_used_comes_first_and_else_the_newest() -> None:
    catalogue = full()

    plain = [each.does for each in catalogue.narrowed(wanted("run run-1"), {})]
    used = [each.does for each in catalogue.narrowed(wanted("run run-1"), {"run:15": 1.0})]

    assert ["1", "10", "11", "12"] == plain[:4]
    assert ["1", "15", "10", "11"] == used[:4], "what fits better stays first"


def test_a_query_that_goes_on_finds_what_a_new_one_finds() -> None:
    for text in ("r", "ru", "run", "run ", "run r", "run rn", "run rn1", "run rn", "rn1", "t 1", "t 12"):
        grown, fresh = full(), full()
        for length in range(len(text) + 1):
            found = grown.narrowed(wanted(text[:length]), {})
        assert fresh.narrowed(wanted(text), {}) == found


def test_entries_that_come_later_are_found_too_and_replace_earlier_ones() -> None:
    catalogue = full()
    assert [] == catalogue.narrowed(wanted("zebra"), {})
    catalogue.add([entry(Kind.RUN, "7", "zebra"), entry(Kind.RUN, "new", "zebra-2")])

    assert ["7", "new"] == [each.does for each in catalogue.narrowed(wanted("zebra"), {})]
    assert 21 == catalogue.count(Kind.RUN)


def test_texts_are_bounded_and_stay_letter_for_letter() -> None:
    long = entry(Kind.RUN, "1", "x" * 16_384, "İ" * 16_384)

    assert (MOST_TEXT, MOST_TEXT) == (len(long.name), len(long.about))
    assert tuple(map(len, long.sought)) == (MOST_TEXT, MOST_TEXT)
    assert frozenset({1, 2}) == marked(entry(Kind.RUN, "1", "İAB"), ("ab",))[0]


def test_a_name_made_to_be_slow_is_not() -> None:
    catalogue = Catalogue()
    catalogue.add(entry(Kind.RUN, str(n), "a" * MOST_TEXT) for n in range(2000))

    # a regular expression would take longer than anybody lives
    assert [] == catalogue.narrowed(wanted("a" * 60 + "b"), {})
