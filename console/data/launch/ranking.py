"""How likely a Python file is a training, judged by its text: its imports, its entry, its name, its age.

Pure. The text may be the beginning of a file and need not be valid Python: nothing is parsed, and no pattern
takes more than linear time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_DAY = 86_400.0
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+([^\n#]{1,200})|import[ \t]+([^\n#]{1,200}))",
    re.MULTILINE,
)
_GUARD = re.compile(r"^if[ \t]+__name__[ \t]*==", re.MULTILINE)
_AT_ONCE = re.compile(r"^(?:(?:for|while|with)\b|[A-Za-z_][\w.]{0,80}\()", re.MULTILINE)
_FUNCTION = re.compile(r"^def[ \t]+(\w{1,80})[ \t]*\(", re.MULTILINE)
_ENTRIES = ("main", "train", "fit", "run", "training", "finetune", "pretrain")
_NAMED = re.compile(r"train|tune|fit|sft|grpo|dpo|main|ddp|fsdp|learn", re.IGNORECASE)
_LONGEST_DOC = 400
_SENTENCE = re.compile(r"[.!?](?=\s|$)")

GANG = {
    "torch.distributed": "torch.distributed",
    "torch.nn.parallel": "torch.distributed",
    "lightning": "Lightning",
    "pytorch_lightning": "Lightning",
    "accelerate": "Accelerate",
    "deepspeed": "DeepSpeed",
    "horovod": "Horovod",
    "ray": "Ray",
    "colossalai": "Colossal-AI",
    "transformers": "Transformers",
}
"""Packages by which ranks train together, and their names."""

SINGLE = {
    "torch": "PyTorch",
    "keras": "Keras",
    "tensorflow": "TensorFlow",
    "jax": "JAX",
    "flax": "Flax",
    "launcher": "rankdeck",
    "rankdeck": "rankdeck",
}
"""Other packages of trainings."""

OPTIONS = {
    "argparse": "argparse",
    "click": "click",
    "typer": "typer",
    "hydra": "Hydra",
    "fire": "fire",
    "tyro": "tyro",
    "absl": "absl",
    "simple_parsing": "simple-parsing",
}
"""Packages by which a script takes options."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a file's text says of it.

    Attributes:
        score: how likely it is a training: about 30 for a plain script of PyTorch, 70 for one of many ranks.
        uses: the frameworks that it imports, those of many ranks first.
        runs: whether it does something when it is run as a script.
        entry: the function that would be called to train; empty if none has such a name.
        doc: the first sentence of its docstring.
    """

    score: float = 0.0
    uses: tuple[str, ...] = ()
    runs: bool = False
    entry: str = ""
    doc: str = ""


LIKELY = 20.0
"""From this score on a file is taken for a training."""


def judge(text: str, name: str) -> Judged:
    """Judge a file by its text and its name."""
    modules = _modules(text)
    gang, single, options = (_named(modules, table) for table in (GANG, SINGLE, OPTIONS))
    functions = _FUNCTION.findall(text)
    entry = next((each for each in _ENTRIES if each in functions), "")
    guarded = bool(_GUARD.search(text))
    runs = guarded or bool(_AT_ONCE.search(text))
    score = 30.0 * bool(gang) + 3.0 * (len(gang) > 1) + 12.0 * bool(single)
    score += 15.0 * guarded + 8.0 * bool(entry) + 6.0 * bool(options)
    score += 8.0 * bool(_NAMED.search(name.rpartition("/")[2]))
    if not (runs or entry):
        score *= 0.2  # a module that others import
    return Judged(score, (*gang, *single, *options), runs, entry, first_sentence(docstring(text)))


def recency(changed: float, now: float) -> float:
    """What an age adds to a score: 10 for a file that was changed today, 0 for one of last year."""
    days = max(0.0, now - changed) / _DAY
    return next(
        (points for limit, points in ((1, 10.0), (7, 7.0), (31, 4.0), (180, 2.0)) if days < limit), 0.0
    )


def _modules(text: str) -> set[str]:
    """The modules that are imported, and what is imported from each, by dotted names."""
    found: set[str] = set()
    for source, names, modules in _IMPORT.findall(text):
        if source:
            found.add(source)
            found |= {f"{source}.{name.split()[0]}" for name in names.strip("( )").split(",") if name.split()}
        else:
            found |= {name.split()[0] for name in modules.split(",") if name.split()}
    return found


def _named(modules: set[str], table: dict[str, str]) -> tuple[str, ...]:
    names = (label for prefix, label in table.items() if any(_within(m, prefix) for m in modules))
    return tuple(dict.fromkeys(names))


def _within(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(f"{prefix}.")


def docstring(text: str) -> str:
    """The docstring at the start of a source text; empty without one, cut where the text is."""
    rest = text.removeprefix("\ufeff")
    while True:
        rest = rest.lstrip()
        if not rest.startswith("#"):
            break
        rest = rest.partition("\n")[2]
    rest = rest.lstrip("rRuU") if rest[:2].strip("rRuU")[:1] in ('"', "'") else rest
    for quote in ('"""', "'''", '"', "'"):
        if rest.startswith(quote):
            inner, closed, _ = rest[len(quote) :].partition(quote)
            return inner.strip() if closed or len(quote) == 3 else ""
    return ""


def first_sentence(doc: str) -> str:
    """The first sentence of a docstring on one line: to its full stop, or to the first empty line."""
    paragraph = " ".join(doc.strip()[:_LONGEST_DOC].partition("\n\n")[0].split())
    end = _SENTENCE.search(paragraph)
    return paragraph[: end.end()] if end else paragraph
