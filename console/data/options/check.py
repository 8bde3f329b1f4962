"""Why a script would probably refuse its arguments. Pure.

These are doubts, which prevent no launch: options are known only as far as source spells them out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from launcher.spec.redaction import REDACTED

from .arguments import ArgumentLine, read_line, split_line, suited
from .option import ScriptOption, ScriptParser

_NUMBERS = {"int": (int, "a whole number"), "float": (float, "a number")}
_FALSE = {"false", "0", "no", "off", "n", "f"}
_MOST_NEAR = 64


def problem_of(option: ScriptOption, value: str) -> str:
    """Why an option would not take the text of its field: a clause such as ``takes a number``; else empty."""
    if not value or value == option.typed_default:
        return ""
    if option.counts:
        return "" if value.isdecimal() else "takes a whole number"
    if option.switch:
        return ""
    if not option.listed:
        return _problem(option, value)
    words = split_line(value)
    if words is None:
        return "has an open quotation"
    if option.many.isdigit() and not option.repeats and len(words) != int(option.many):
        return f"takes {option.many} values"
    return next((p for word in words if (p := _problem(option, word.text))), "")


def _problem(option: ScriptOption, value: str) -> str:
    if REDACTED in value or (option.assigned and ("${" in value or "," in value)):
        return ""  # a secret, an interpolation, a sweep
    if option.choices:
        return "" if value in option.choices else _not_among(option, value)
    if option.kind == "bool" and not option.assigned and value.lower() in _FALSE:
        return f"takes any text for true, also {value!r}; only '' is false"
    convert, what = _NUMBERS.get(option.kind, (str, ""))
    if option.assigned and value.lower() in ("null", "none"):
        return ""
    try:
        convert(value)
    except ValueError:
        return f"takes {what}"
    return ""


def _not_among(option: ScriptOption, value: str) -> str:
    near = get_close_matches(value[:_MOST_NEAR], option.choices, 1)
    if len(option.choices) > 6:
        return f"takes one of {len(option.choices)} values{f', such as {near[0]}' if near else ''}"
    return f"takes {' or '.join(option.choices)}"


def doubts(parser: ScriptParser, text: str) -> Iterator[tuple[ScriptOption | None, str]]:
    """What a script would refuse in a line, with the option that it is about, the wrong values first."""
    line = read_line(parser.options, text)
    if line is None or not parser.options:
        return  # the field itself reports an open quotation
    for given in line.given:
        name = given.name or given.option.names[0]
        for value in given.values:
            if value and not given.option.switch and (problem := _problem(given.option, value)):
                yield given.option, f"{name} {problem}, not {value[:_MOST_NEAR]!r}"
    if not parser.loose:
        yield from ((None, problem) for problem in _unknown(parser.options, line))
    yield from _unfit(parser.options, line)


def _unknown(options: Sequence[ScriptOption], line: ArgumentLine) -> Iterator[str]:
    names = [
        name for o in suited(options, line.command) for name in (*o.names, *o.off) if name.startswith("-")
    ]
    for number in (each for each in line.rest if each < line.ended):
        name = line.words[number].text.partition("=")[0]
        if name.startswith("--") and name != "--":
            near = get_close_matches(name[:_MOST_NEAR], names, 1)
            yield f"no {name[:_MOST_NEAR]} is found in its source" + (
                f": did you mean {near[0]}?" if near else ""
            )


def _unfit(options: Sequence[ScriptOption], line: ArgumentLine) -> Iterator[tuple[ScriptOption, str]]:
    """What is missing, and what excludes each other."""
    exclusive: dict[int, ScriptOption] = {}
    for option in suited(options, line.command):
        given = bool(line.of(option))
        if option.exclusive and given:
            other = exclusive.setdefault(option.exclusive, option)
            if other is not option:
                yield option, f"{option.names[0]} and {other.names[0]} exclude each other"
        if option.required and not given:
            yield option, f"{option.names[0]} is required"


def misgiven(parser: ScriptParser, text: str) -> str:
    """The first doubt about a line, as a sentence; empty if there is none."""
    return next((problem for _, problem in doubts(parser, text)), "")
