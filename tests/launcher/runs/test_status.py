"""`status.json`: replaced whole, private, and judged by who owns the run."""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.runs import paths
from launcher.runs.status import Owner, Status, process_start, read_status, write_status
from launcher.state.run_state import Phase

RUNNING = Status(
    "r", "n", "t.py", Phase.RUNNING, mode="local", num_processes=2, started=1.0, owner=Owner.this()
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_status(tmp_path, RUNNING)
    assert RUNNING == read_status(tmp_path)


def test_the_file_is_private_and_alone(tmp_path: Path) -> None:
    write_status(tmp_path, RUNNING)
    assert [paths.STATUS] == [p.name for p in tmp_path.iterdir()]
    assert 0o600 == stat.S_IMODE((tmp_path / paths.STATUS).stat().st_mode)


def test_a_reader_sees_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    texts = ["x" * 20_000, "y" * 3]
    write_status(tmp_path, replace(RUNNING, why=texts[0]))
    over = threading.Event()

    def rewrite() -> None:
        for i in range(200):
            write_status(tmp_path, replace(RUNNING, why=texts[i % 2]))
        over.set()

    writer = threading.Thread(target=rewrite)
    writer.start()
    seen = set()
    while not over.is_set():
        status = read_status(tmp_path)
        seen.add(status.why if status else None)
    writer.join()
    assert seen <= set(texts)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b"null",
        b'"text"',
        b"\xff\xfe",
        b"{}",
        b'{"id":"r","state":"evaporated"}',
        b'{"id":"r","owner":"me"}',
        b'{"id":"r","owner":{"host":"h"}}',
        b"\0" * 100,
        b"[" * 50_000,
    ],
)
def test_what_cannot_be_read_is_none(tmp_path: Path, text: bytes) -> None:
    (tmp_path / paths.STATUS).write_bytes(text)
    assert read_status(tmp_path) is None


def test_a_folder_without_one_has_none(tmp_path: Path) -> None:
    assert read_status(tmp_path) is None
    assert read_status(tmp_path / "nothing") is None


def test_a_run_whose_owner_is_gone_is_lost() -> None:
    gone = replace(RUNNING, owner=Owner(socket.gethostname(), os.getpid(), 1)).judged()
    assert (Phase.LOST, 75) == (gone.state, gone.exit_code)
    assert "the process that owned the run is gone and left no verdict" == gone.why


def test_a_run_whose_owner_is_a_zombie_is_lost() -> None:
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    try:
        assert process_start(pid) is None
    finally:
        os.waitpid(pid, 0)


def test_a_run_whose_owner_lives_is_what_it_says() -> None:
    assert RUNNING == RUNNING.judged()


def test_a_run_of_another_host_is_what_it_says() -> None:
    elsewhere = replace(RUNNING, owner=Owner("elsewhere", 1, 1))
    assert elsewhere == elsewhere.judged()


@pytest.mark.parametrize("phase", [p for p in Phase if p.final])
def test_a_run_that_has_ended_is_what_it_says(phase: Phase) -> None:
    ended = replace(RUNNING, state=phase, exit_code=0, owner=Owner(socket.gethostname(), 1, 0))
    assert ended == ended.judged()


def test_the_file_is_json_that_people_read(tmp_path: Path) -> None:
    write_status(tmp_path, RUNNING)
    data = json.loads((tmp_path / paths.STATUS).read_text())
    assert ("r", "running", 2) == (data["id"], data["state"], data["num_processes"])
