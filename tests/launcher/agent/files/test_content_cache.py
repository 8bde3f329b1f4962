"""The cache of contents on a host: nothing is seen of it that is not whole, and nobody else's is used."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from launcher.agent.files import content_cache
from launcher.agent.files.content_cache import ContentCache
from tests.another_user import NOBODY, as_root
from tests.small_disk import fill, small_disk

TEXT = b"weights" * 1000
NAME = f"rankdeck-cache-{os.geteuid()}"


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(content_cache, "_USUAL", ())
    place = tmp_path / "tmp"
    place.mkdir()
    return place


def cache_in(place: Path) -> ContentCache:
    return ContentCache({"TMPDIR": str(place)}, str(place.parent / "own"))


def keep(cache: ContentCache, data: bytes) -> str:
    receiving = cache.receive(digest_of(data), len(data))
    for start in range(0, len(data), 1000):
        receiving.write(memoryview(data)[start : start + 1000])
    assert not receiving.missing
    assert receiving.finish()
    return digest_of(data)


@pytest.mark.parametrize("data", [TEXT, b"x", b""])
def test_a_content_comes_out_as_it_came_in(place: Path, data: bytes) -> None:
    cache = cache_in(place)
    assert not cache.holds(digest_of(data))
    digest = keep(cache, data)
    cache.copy(digest, str(place / "copy"), 0o700)

    assert cache.holds(digest)
    assert (data, 0o700) == ((place / "copy").read_bytes(), (place / "copy").stat().st_mode & 0o777)
    assert 0o700 == cache.folder.stat().st_mode & 0o777


def test_another_agent_of_the_same_user_has_it_too(place: Path) -> None:
    assert cache_in(place).holds(keep(cache_in(place), TEXT))


def test_a_content_with_another_hash_is_not_kept(place: Path) -> None:
    cache = cache_in(place)
    receiving = cache.receive(digest_of(TEXT), 3)
    receiving.write(memoryview(b"abc"))

    assert not receiving.finish()
    assert [] == list(cache.folder.iterdir())


def test_half_a_content_is_not_seen_and_leaves_nothing(place: Path) -> None:
    cache = cache_in(place)
    receiving = cache.receive(digest_of(TEXT), len(TEXT))
    receiving.write(memoryview(TEXT[:10]))
    assert not cache.holds(digest_of(TEXT))
    receiving.discard()

    assert [] == list(cache.folder.iterdir())


def test_two_agents_may_receive_the_same(place: Path) -> None:
    first, second = (cache_in(place).receive(digest_of(TEXT), len(TEXT)) for _ in range(2))
    for receiving in (first, second):
        receiving.write(memoryview(TEXT))
    assert [True, True] == [first.finish(), second.finish()]

    assert [digest_of(TEXT)] == [path.name for path in cache_in(place).folder.iterdir()]


def test_a_damaged_content_is_removed_and_no_copy_of_it_remains(place: Path) -> None:
    cache = cache_in(place)
    digest = keep(cache, TEXT)
    (cache.folder / digest).write_bytes(TEXT[:-1] + b"?")

    with pytest.raises(FileNotFoundError, match="damaged"):
        cache.copy(digest, str(place / "copy"), 0o600)
    assert not cache.holds(digest)
    assert not (place / "copy").exists()


def test_an_existing_file_is_never_written_over(place: Path) -> None:
    cache = cache_in(place)
    digest = keep(cache, TEXT)
    (place / "target").write_text("mine")
    (place / "copy").symlink_to(place / "target")

    with pytest.raises(FileExistsError):
        cache.copy(digest, str(place / "copy"), 0o600)
    assert "mine" == (place / "target").read_text()


def test_what_was_not_used_for_long_is_removed(place: Path) -> None:
    cache = cache_in(place)
    old, used = keep(cache, b"old"), keep(cache, b"used")
    for digest in (old, used):
        os.utime(cache.folder / digest, (1000, 1000))
    assert cache.holds(used)
    cache.prune()

    assert (False, True) == (cache.holds(old), cache.holds(used))


def test_the_oldest_go_beyond_the_limit_and_what_arrives_now_stays(place: Path) -> None:
    cache = cache_in(place)
    digests = [keep(cache, bytes([n]) * 100) for n in range(3)]
    for age, digest in enumerate(digests):
        os.utime(cache.folder / digest, (1000 - age, 1000 - age))
    arriving = cache.receive(digest_of(TEXT), len(TEXT))
    arriving.write(memoryview(TEXT))
    cache.prune(now=1000.0, limit=200)

    assert [True, True, False] == [cache.holds(digest) for digest in digests]
    assert arriving.finish()


def test_what_never_arrived_is_removed_in_the_end(place: Path) -> None:
    cache = cache_in(place)
    arriving = cache.receive(digest_of(TEXT), 10)
    cache.prune(now=10e9)

    assert [] == list(cache.folder.iterdir())
    arriving.discard()


@pytest.mark.parametrize("what", ["link", "file", "readable"])
def test_a_folder_that_is_not_ours_alone_is_not_used(place: Path, what: str) -> None:
    elsewhere = place.parent / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if what == "link":
        (place / NAME).symlink_to(elsewhere)
    elif what == "file":
        (place / NAME).write_text("")
    else:
        (place / NAME).mkdir()
        (place / NAME).chmod(0o755)
    cache = cache_in(place)
    keep(cache, TEXT)

    assert place.parent / "own" == cache.folder
    assert [] == list(elsewhere.iterdir())


@as_root
def test_a_folder_of_another_user_is_not_used(place: Path) -> None:
    (place / NAME).mkdir(mode=0o700)
    os.chown(place / NAME, NOBODY, NOBODY)

    assert place.parent / "own" == cache_in(place).folder


@pytest.mark.parametrize("temporary", ["", "relative", "/nowhere/at/all"])
def test_a_temporary_folder_that_is_none_is_passed_over(place: Path, temporary: str) -> None:
    cache = ContentCache({"TMPDIR": temporary}, str(place / "own"))

    assert cache.holds(keep(cache, TEXT))
    assert place / "own" == cache.folder


@pytest.mark.process
def test_a_full_disk_is_told_and_leaves_nothing(place: Path) -> None:
    with small_disk(place, 1 << 20) as disk:
        cache = cache_in(disk)
        assert disk / NAME == cache.folder
        fill(disk, leave=8192)
        data = os.urandom(1 << 17)
        receiving = cache.receive(digest_of(data), len(data))
        receiving.write(memoryview(data)[: 1 << 12])
        with pytest.raises(OSError, match="No space left"):
            receiving.write(memoryview(data)[1 << 12 :])
        receiving.discard()

        assert [] == list(cache.folder.iterdir())
