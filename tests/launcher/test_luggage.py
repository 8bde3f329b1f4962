"""A run folder in pieces: packed, sent, unpacked."""

from __future__ import annotations

import io
import random
import tarfile
from pathlib import Path

import pytest

from launcher.backends.luggage import PIECE_BYTES, SLICE_BYTES, Luggage, send_folder
from launcher.runs import paths


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    for name in (
        "logs/0/chunks",
        "logs/0/00000.out",
        "result/00000.pickle",
        "samples/1.jsonl",
        "events.jsonl",
        "spec.json",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())
    return folder


def home(tmp_path: Path) -> Luggage:
    (tmp_path / "home").mkdir()
    return Luggage(tmp_path / "home")


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_record_comes_home_whole_in_bounded_pieces(run: Path, tmp_path: Path) -> None:
    output = random.Random(1).randbytes(2 * SLICE_BYTES + 7)
    (run / "logs/0/00001.out").write_bytes(output)
    pieces: list[bytes] = []
    send_folder(run, pieces.append)
    luggage = home(tmp_path)
    for piece in pieces:
        luggage.add(piece)
    unpacked = luggage.unpack()

    assert unpacked is not None
    assert luggage.whole
    assert {k: v for k, v in files(run).items() if k != paths.SPEC} == files(unpacked)
    assert {PIECE_BYTES} == {len(piece) for piece in pieces[:-1]}
    luggage.discard()
    assert [] == list((tmp_path / "home").iterdir())


def test_beyond_the_limit_only_output_is_missing(run: Path, tmp_path: Path) -> None:
    output = random.Random(1).randbytes(4 * PIECE_BYTES)
    (run / "logs/0/00001.out").write_bytes(output)
    pieces: list[bytes] = []
    send_folder(run, pieces.append, limit=2 * PIECE_BYTES)
    luggage = home(tmp_path)
    for piece in pieces:
        luggage.add(piece)
    unpacked = luggage.unpack()

    assert sum(map(len, pieces)) <= 2 * PIECE_BYTES
    assert unpacked is not None
    assert not luggage.whole
    found = files(unpacked)
    kept = found.pop("logs/0/00001.out")
    assert output.startswith(kept)
    assert len(kept) >= PIECE_BYTES
    assert {k for k in files(run) if k not in (paths.SPEC, "logs/0/00001.out")} == found.keys()


def test_of_every_ranks_output_some_comes(run: Path, tmp_path: Path) -> None:
    output = {rank: random.Random(rank).randbytes(3 * SLICE_BYTES) for rank in (1, 2, 3)}
    for rank, data in output.items():
        (run / f"logs/0/{rank:05d}.out").write_bytes(data)
    luggage = home(tmp_path)
    send_folder(run, luggage.add, limit=5 * SLICE_BYTES)
    unpacked = luggage.unpack()

    assert unpacked is not None
    for rank, data in output.items():
        kept = (unpacked / f"logs/0/{rank:05d}.out").read_bytes()
        assert data.startswith(kept)
        assert SLICE_BYTES <= len(kept) <= 2 * SLICE_BYTES


def test_nothing_came(tmp_path: Path) -> None:
    assert home(tmp_path).unpack() is None


def test_what_is_no_archive_gives_an_empty_folder(tmp_path: Path) -> None:
    luggage = home(tmp_path)
    luggage.add(b"\x00 this is nothing")
    unpacked = luggage.unpack()
    assert unpacked is not None
    assert ({}, False) == (files(unpacked), luggage.whole)


@pytest.mark.parametrize("name", ["../out", "/tmp/rankdeck-out", "a/../../out"])
def test_nothing_is_written_elsewhere(tmp_path: Path, name: str) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.size = 3
        tar.addfile(member, io.BytesIO(b"bad"))
        link = tarfile.TarInfo("logs")
        link.type, link.linkname = tarfile.SYMTYPE, "/"
        tar.addfile(link)
    luggage = home(tmp_path)
    luggage.add(packed.getvalue())
    unpacked = luggage.unpack()

    assert unpacked is not None
    assert [] == list(unpacked.iterdir())
    assert not Path("/tmp/rankdeck-out").exists()
    assert [".carried", ".carried.tar.gz"] == sorted(p.name for p in (tmp_path / "home").iterdir())


def test_a_task_that_is_gone_ends_the_sending(run: Path) -> None:
    def send(_: bytes) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        send_folder(run, send)
