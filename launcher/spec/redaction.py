"""Masking secrets, which must not be recorded or shown: they are recognised by name or by shape. Pure.

A name is judged by its words: ``api_key``, ``--token`` and ``spark.ssl.keyPassword`` hold secrets, but not
``tokenizer``, ``max_tokens``, ``sort_key`` and ``key_bits``. A shape is recognised anywhere in a text: a
provider's API key, a URL's password, ``name=value`` with a secret name. A sequence of hex digits alone is not
masked: it is a revision or a checksum far more often.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

REDACTED = "***"
_LEAST = 6  # a shorter secret is masked only where it was recognised, not wherever its letters occur

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_STRONG = re.compile(r"passw(?:or)?d|passphrase|passfile|secret|credential|cookie|(?<![a-z])jwt(?![a-z])")
_JOINED = re.compile(
    r"(?:api|auth|access|private|secret|account|encryption|signing)_?(?:keys?|tokens?)(?![a-z])"
)
_TOKENS_OF_TEXTS = re.compile(
    "pad|eos|bos|unk|mask|sep|cls|stop|special|start|end|image|next|max|min|num|per|sub|first|last|decoder|"
    "forced|prompt|new|video|audio|class"
)
_KEYS_OF_DATA = re.compile(
    "sort|label|image|text|input|output|primary|foreign|query|target|feature|group|column|batch|data|dataset|"
    "dict|state|hash|partition|order|loss|metric|monitor|log|score|id|name|cache|prompt|response|caption|video|"
    "audio|index|join|shuffle|config|param|public|host|num|max|min|value|per|rng|prng|random|answer|row"
)
_NO_KEYS = ("hotkey", "monkey", "turkey", "whiskey")
_NO_PASSES = ("bypass", "compass", "trespass")
_PLAIN = re.compile(r"(?i)true|false|none|null|yes|no|on|off|[-+]?\d{1,6}(?:\.\d*)?(?:e[-+]?\d+)?")
_NOTHING = re.compile(r"(?i)|''|\"\"|true|false|none|null")

_SHAPES = re.compile(
    r"""
      (?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])      # AWS
    | (?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{20,}                    # GitHub
    | (?<![A-Za-z0-9])github_pat_[A-Za-z0-9_]{20,}
    | (?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{20,}                      # GitLab
    | (?<![A-Za-z0-9])hf_[A-Za-z0-9]{20,}                           # Hugging Face
    | (?<![A-Za-z0-9])dapi[0-9a-f]{32}                              # Databricks
    | (?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{35}                         # Google
    | (?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{10,}                # Slack
    | (?<![A-Za-z0-9])sk-(?=[\w-]{0,99}\d)(?=[\w-]{0,99}[A-Z_])[\w-]{20,}   # OpenAI and the like
    | (?<![A-Za-z0-9])eyJ[\w-]{8,4000}\.[\w-]{8,4000}\.[\w-]{8,}          # JWT
    | -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----[\s\S]*?(?:-----END[ ][A-Z ]*-----|\Z)
    """,
    re.VERBOSE,
)
_BEARER = re.compile(r"(?i)\b(bearer|basic)(\s+)([\w.~+/=-]{8,})")
_URL = re.compile(
    r"((?<![\w+.-])[A-Za-z][\w+.-]*://[^\s/:@?#'\"]*:)(?!\d{1,5}(?:[/,?#]|$))([^\s'\"]{1,512})(?=@)"
)
_WHOLE = re.compile(r"([-+~]*[A-Za-z_][\w.-]*=)(.+)", re.DOTALL)
_QUOTED = re.compile(
    r"""(?P<q>['"])(?P<name>[\w.-]+)(?P=q)\s*:\s*(?P<v>['"])(?P<value>(?:\\.|(?!(?P=v)).)+)(?P=v)"""
)
# not after a slash: a folder called `key=5` is a partition of a table
_PAIR = re.compile(r"""(?<![\w./-])(?P<name>[A-Za-z_][\w.-]*)=(?P<v>['"]?)(?P<value>[^\s;&,'"\])}]+)(?P=v)""")
_HEADER = re.compile(r"(?<![\w-])(?P<name>[A-Za-z][\w-]*):[ \t]+(?P<value>[^\s'\"]{8,})")


def looks_secret(name: str) -> bool:
    """Whether a variable, setting, option or parameter of this name usually holds something secret."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or name in ("PWD", "OLDPWD"):
        return False
    joined, last = "_".join(words), words[-1]
    before = words[-2] if len(words) > 1 else ""
    if _STRONG.search(joined) or _JOINED.search(joined) or "private" in words:
        return True
    if last.endswith("token"):
        return not _TOKENS_OF_TEXTS.fullmatch(before)
    if last.endswith("key"):
        return not _KEYS_OF_DATA.fullmatch(before) and last not in _NO_KEYS
    if last.endswith("pass"):
        return last not in _NO_PASSES and before not in ("forward", "backward")
    return last in ("auth", "authorization", "pwd", "pat", "dsn", "passcode")


def hides(name: str, value: str) -> bool:
    """Whether the value of this name is a secret. A boolean or a number is none, unless it is a password."""
    if not looks_secret(name) or _NOTHING.fullmatch(value):
        return False
    words = "_".join(word.lower() for word in _WORDS.findall(name))
    return bool(_STRONG.search(words) or "pass" in words or "pwd" in words) or not _PLAIN.fullmatch(value)


class Redactor:
    """Masks secrets, and remembers them: a secret that was found once is masked in all later texts."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self.known = set(known)

    def mask(self, text: str, name: str = "") -> str:
        """The text with its secrets masked: all of it, if it is the value of a secret `name`."""
        if name and hides(name, text):
            return self._masked(text)
        whole = _WHOLE.fullmatch(text)
        if whole and hides(whole[1].strip("-+~="), whole[2]):
            return whole[1] + self._masked(whole[2])
        if any(sign in text for sign in "=:-_.") or len(text) > 15:
            text = self._shapes(text)
        return self.mask_known(text)

    def mask_known(self, text: str) -> str:
        """The text with the remembered secrets masked."""
        for secret in sorted((s for s in self.known if s in text), key=len, reverse=True):
            text = text.replace(secret, REDACTED)
        return text

    def mask_place(self, text: str) -> str:
        """The name of a file, host or person with what is in it of remembered secrets and of known shapes."""
        text = _URL.sub(lambda m: m[1] + self._masked(m[2]), text)
        return self.mask_known(_SHAPES.sub(lambda m: self._masked(m[0]), text))

    def _shapes(self, text: str) -> str:
        text = _URL.sub(lambda m: m[1] + self._masked(m[2]), text)
        text = _BEARER.sub(lambda m: m[1] + m[2] + self._masked(m[3]), text)
        for pattern in (_QUOTED, _PAIR, _HEADER):
            text = pattern.sub(self.mask_value, text)
        return _SHAPES.sub(lambda m: self._masked(m[0]), text)

    def mask_value(self, match: re.Match[str]) -> str:
        """What a pattern with the groups `name` and `value` matched, without the value if it is a secret."""
        whole, value = match[0], match["value"]
        if not hides(match["name"], value):
            return whole
        start, end = match.span("value")
        return whole[: start - match.start()] + self._masked(value) + whole[end - match.start() :]

    def _masked(self, secret: str) -> str:
        for each in (secret, secret.strip("'\"")):
            if len(each) >= _LEAST and REDACTED not in each:
                self.known.add(each)
        return secret if not secret else REDACTED


_SENTENCES = (
    "name", "target", "args", "why", "reason", "text", "message", "traceback", "application", "master", "ui",
    "root", "store", "url", "evidence", "remedy",
)  # fmt: skip
_PARTS = {"excerpts": ("lines",), "variables": ("text",)}
"""Fields whose items are dataclasses, and those of their fields that are masked."""


def without_secrets(fact: T, secrets: Iterable[str]) -> T:
    """A fact with these secrets masked in its sentences and names. Fields that rules depend on are left."""
    redactor = Redactor(secrets)
    fact = _masked_in(fact, _SENTENCES, redactor)
    for name, fields in _PARTS.items():
        parts = getattr(fact, name, ())
        masked = tuple(_masked_in(part, fields, redactor) for part in parts)
        if masked != parts:
            fact = dataclasses.replace(fact, **{name: masked})  # type: ignore[type-var]
    return fact


def _masked_in(part: T, names: Sequence[str], redactor: Redactor) -> T:
    """A dataclass with the remembered secrets masked in some of its fields, if it has them."""
    changes: dict[str, Any] = {}
    for each in dataclasses.fields(part):  # type: ignore[arg-type]
        if each.name not in names:
            continue
        value = getattr(part, each.name)
        if isinstance(value, tuple):
            masked: object = tuple(redactor.mask_known(p) if isinstance(p, str) else p for p in value)
        else:
            masked = redactor.mask_known(value) if isinstance(value, str) else value
        if masked != value:
            changes[each.name] = masked
    return dataclasses.replace(part, **changes) if changes else part  # type: ignore[type-var]


_LITERAL = re.compile(
    r"""(?<!\w)(?P<name>[A-Za-z_]\w{0,80})['"]?\]?\s{0,9}(?::[^=:'"\n]{1,80}=|[=:]=?)\s{0,9}"""
    r"""[rbufRBUF]{0,2}(?P<v>['"]{1,3})(?P<value>(?:\\.|(?!(?P=v)).)+)"""
)


def redacted_source(line: str, redactor: Redactor | None = None) -> str:
    """A line of Python, or a text that quotes some, with the secrets masked that are written in it.

    Those are texts of known shapes, and literals that are given to a secret name. An expression, such as in
    ``login(token=config.token)``, is none. A redactor remembers those that are given to a name.
    """
    line = _SHAPES.sub(REDACTED, _URL.sub(rf"\1{REDACTED}", line))
    return _LITERAL.sub((redactor or Redactor()).mask_value, line)


def redacted(values: Mapping[str, str]) -> dict[str, str]:
    """The same with the secrets in the values masked."""
    redactor = Redactor()
    return {name: redactor.mask(value, name) for name, value in values.items()}


def redacted_text(text: str) -> str:
    """A text, such as a URL, with everything masked that has the shape of a secret."""
    return Redactor().mask(text)


def named_words(words: Sequence[str]) -> list[tuple[str, str]]:
    """Each word of a command line as a pair: the option whose value it is, else empty, and the word."""
    named, option = [], ""
    for word in words:
        is_option = word.startswith("-") and len(word) > 1
        named.append(("" if is_option else option, word))
        option = word if is_option and "=" not in word else ""
    return named
