"""An agent's part in a delivery: what it asks for, keeps and answers, step by step."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from launcher.agent.files.content_cache import ContentCache
from launcher.agent.files.preparation import Preparation
from launcher.agent.files.working_folder import Layout
from launcher.channel.frames import Kind
from launcher.spec.files.bundle import SOURCES, Bundle, Manifest, SentFile
from tests.launcher.agent.files.test_content_cache import digest_of

TEXTS = {"train.py": b"print(1)\n", "a.bin": b"a" * 5000, "again.bin": b"a" * 5000, "empty": b""}
WORK = "/no/such/project"


def bundle(texts: Mapping[str, bytes] = TEXTS) -> Bundle:
    files = tuple(SentFile(f"{SOURCES}{WORK}/{n}", digest_of(t), len(t)) for n, t in texts.items())
    contents = b"".join(dict.fromkeys(texts.values()))
    return Bundle(Manifest(WORK, lead=WORK, main=f"{WORK}/train.py", files=files), contents)


class Host:
    """Agents' preparations on one host, and what they say."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.said: list[tuple[Kind, Mapping[str, Any]]] = []
        self.open: list[Preparation] = []

    def begin(self, manifest: Manifest, *, number: int = 0, given: str = "") -> Preparation:
        scratch = self.place / f"agent{number}"
        scratch.mkdir(exist_ok=True)
        environ = {"TMPDIR": str(self.place)}
        prepared = Preparation(
            manifest,
            str(scratch),
            given,
            environ,
            lambda kind, said: self.said.append((kind, said)),
            Preparation.answer,
        )
        self.open.append(prepared)
        return prepared

    def answer(self, preparation: Preparation) -> tuple[Kind, Mapping[str, Any]]:
        """What it says next."""
        while not self.said:
            select.select([preparation], [], [], 20)
            preparation.advance()
        return self.said.pop(0)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path)
    yield host
    for preparation in host.open:
        preparation.close()


def lacking(answer: tuple[Kind, Mapping[str, Any]]) -> list[int]:
    assert answer[0] is Kind.LACKS
    found: list[int] = answer[1]["files"]
    return found


def layout(preparation: Preparation) -> Layout:
    assert preparation.layout is not None
    return preparation.layout


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_a_host_without_the_files_asks_once_for_each_content(host: Host, size: int) -> None:
    sent = bundle()
    first = host.begin(sent.manifest)
    assert [0, 2] == lacking(host.answer(first))
    for start in range(0, len(sent.contents), size):
        first.on_content(sent.contents[start : start + size])

    assert (
        Kind.PREPARED,
        {"folder": str(host.place / "agent0/files"), "collects": False, "absent": []},
    ) == host.answer(first)
    assert TEXTS == {name: Path(layout(first).cwd, name).read_bytes() for name in TEXTS}


def test_a_second_run_asks_for_nothing(host: Host) -> None:
    sent = bundle()
    first = host.begin(sent.manifest)
    host.answer(first)
    first.on_content(sent.contents)
    host.answer(first)
    second = host.begin(sent.manifest, number=1)

    assert (
        Kind.PREPARED,
        {"folder": str(host.place / "agent1/files"), "collects": False, "absent": []},
    ) == host.answer(second)


def test_another_agent_of_the_host_uses_the_same_folder(host: Host) -> None:
    sent = bundle()
    first = host.begin(sent.manifest)
    host.answer(first)
    first.on_content(sent.contents)
    folder = host.answer(first)[1]["folder"]
    second = host.begin(sent.manifest, number=1, given=folder)

    assert (Kind.PREPARED, {"folder": folder, "collects": False, "absent": []}) == host.answer(second)
    assert layout(first) == layout(second)


def test_a_folder_that_is_not_here_is_made_here(host: Host) -> None:
    """Two containers of one machine share its name, and no folder."""
    second = host.begin(bundle().manifest, number=1, given="/nowhere")

    assert [0, 2] == lacking(host.answer(second))


def test_a_content_that_is_another_than_announced_is_told_by_its_name(host: Host) -> None:
    sent = bundle()
    first = host.begin(sent.manifest)
    host.answer(first)
    first.on_content(b"x" * len(sent.contents))
    first.on_content(sent.contents)

    kind, said = host.answer(first)
    assert (Kind.PREPARED, f"{WORK}/train.py: it has changed since the run was started") == (
        kind,
        said["error"],
    )
    assert (None, []) == (first.layout, host.said)


def test_more_than_was_asked_for_is_ignored(host: Host) -> None:
    sent = bundle()
    first = host.begin(sent.manifest)
    host.answer(first)
    for piece in (sent.contents + b"more", b"and more"):
        first.on_content(piece)

    assert Kind.PREPARED is host.answer(first)[0]
    assert [] == host.said


def test_a_content_that_is_damaged_or_pruned_before_it_is_laid_out_is_asked_for_again(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = bundle()
    first = host.begin(sent.manifest)
    host.answer(first)
    copy = ContentCache.copy

    def loses(cache: ContentCache, digest: str, target: str, mode: int) -> None:
        monkeypatch.setattr(ContentCache, "copy", copy)
        (cache.folder / digest).write_bytes(b"damaged")
        cache.copy(digest, target, mode)

    monkeypatch.setattr(ContentCache, "copy", loses)
    first.on_content(sent.contents)
    assert [0] == lacking(host.answer(first))
    first.on_content(TEXTS["train.py"])

    assert Kind.PREPARED is host.answer(first)[0]
    assert TEXTS["train.py"] == Path(layout(first).cwd, "train.py").read_bytes()


@pytest.mark.parametrize(
    "error",
    [
        lambda: OSError(28, "No space left on device", "/tmp/x"),
        lambda: UnicodeEncodeError("ascii", "ü", 0, 1, "ordinal not in range"),
    ],
    ids=["full", "a name that is none here"],
)
def test_what_goes_wrong_in_the_thread_is_told(
    host: Host, monkeypatch: pytest.MonkeyPatch, error: Callable[[], Exception]
) -> None:
    def fails(*_: object) -> None:
        raise error()

    monkeypatch.setattr(ContentCache, "copy", fails)
    sent = bundle()
    first = host.begin(sent.manifest)
    host.answer(first)
    first.on_content(sent.contents)
    kind, said = host.answer(first)

    assert (Kind.PREPARED, {"error"}) == (kind, set(said))
    assert ("No space left" in said["error"]) or ("ordinal not in range" in said["error"])


def test_the_end_of_an_agent_while_contents_arrive_leaves_nothing_behind(host: Host) -> None:
    sent = bundle()
    first = host.begin(sent.manifest)
    host.answer(first)
    first.on_content(sent.contents[:100])
    host.open.remove(first)
    first.close()

    cache = next(place for place in host.place.iterdir() if place.name.startswith("rankdeck-cache"))
    assert [digest_of(TEXTS["train.py"])] == [path.name for path in cache.iterdir()]
