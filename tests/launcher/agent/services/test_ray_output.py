"""What Ray's workers print, from their files: whole lines, with the name and pid of whoever printed them."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.agent.services.ray_output import STDERR, STDOUT, WorkerOutput


class Node:
    """A node's folder of logs, and what came out of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[tuple[int, bytes]] = []
        self.output = WorkerOutput(str(folder), lambda stream, data: self.said.append((stream, data)))

    def write(self, name: str, data: bytes) -> None:
        self.folder.mkdir(exist_ok=True)
        with open(self.folder / name, "ab") as file:
            file.write(data)

    def take(self) -> list[tuple[int, bytes]]:
        self.output.forward()
        said, self.said[:] = list(self.said), []
        return said


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "logs")


OUT, ERR = "worker-0a1b-01000000-4711.out", "worker-0a1b-01000000-4711.err"


def test_lines_come_with_the_pid_and_the_name_of_task_or_actor(node: Node) -> None:
    assert [] == node.take()  # there is no session yet
    node.write(OUT, b":job_id:01000000\nearly\n:task_name:train\nhello\n:actor_name:Worker\nthere\n")
    node.write(ERR, b"oh\n")
    said = node.take()
    lines = [b"(pid=4711) early\n", b"(train pid=4711) hello\n", b"(Worker pid=4711) there\n"]
    assert lines == [data for stream, data in said if stream == STDOUT]
    assert [b"(pid=4711) oh\n"] == [data for stream, data in said if stream == STDERR]


def test_a_line_waits_for_its_end(node: Node) -> None:
    node.write(OUT, b"half")
    assert [] == node.take()
    node.write(OUT, b" a line\nnext")
    assert [(STDOUT, b"(pid=4711) half a line\n")] == node.take()
    node.output.finish()
    assert [(STDOUT, b"(pid=4711) next\n")] == node.said


def test_a_line_without_end_does_not_wait_for_ever(node: Node) -> None:
    node.write(OUT, b"#" * 70_000)
    assert [(STDOUT, b"(pid=4711) " + b"#" * 70_000 + b"\n")] == node.take()
    node.output.finish()
    assert [] == node.said


def test_bytes_that_are_no_text_are_kept(node: Node) -> None:
    node.write(OUT, b"\xff\0\x1b[31m\n")
    assert [(STDOUT, b"(pid=4711) \xff\0\x1b[31m\n")] == node.take()


@pytest.mark.parametrize(
    "name", ["raylet.out", "worker-x.out", "worker-0-1-2.log", "python-core-worker-1_2.log"]
)
def test_other_files_are_rays_own(node: Node, name: str) -> None:
    node.write(name, b"not for people\n")
    assert [] == node.take()


def test_a_file_that_goes_takes_nothing_with_it(node: Node) -> None:
    node.write(OUT, b"one\n")
    node.write(ERR, b"two\n")
    assert 2 == len(node.take())
    (node.folder / OUT).unlink()
    node.write(ERR, b"three\n")
    assert [(STDERR, b"(pid=4711) three\n")] == node.take()


def rotate(node: Node) -> None:
    """Rename the worker's file as Ray does, and those before it first."""
    older = sorted(node.folder.glob(f"{OUT}.*"), reverse=True)
    for path in older:
        path.rename(path.with_suffix(f".{int(path.suffix[1:]) + 1}"))
    (node.folder / OUT).rename(node.folder / f"{OUT}.1")


def test_a_file_that_is_renamed_is_read_to_its_end_and_the_next_from_its_beginning(node: Node) -> None:
    node.write(OUT, b"one\ntw")
    assert [b"(pid=4711) one\n"] == [data for _, data in node.take()]
    node.write(OUT, b"o\nthree\n")
    rotate(node)
    node.write(OUT, b"four\n")
    rotate(node)
    node.write(OUT, b"five\n")
    lines = [b"(pid=4711) two\n", b"(pid=4711) three\n", b"(pid=4711) four\n", b"(pid=4711) five\n"]
    assert lines == [data for _, data in node.take()]
    node.write(OUT, b"six\n")
    assert [b"(pid=4711) six\n"] == [data for _, data in node.take()]


def test_of_a_worker_that_was_quick_all_files_are_read(node: Node) -> None:
    node.write(OUT, b"one\n")
    rotate(node)
    node.write(OUT, b"two\n")
    assert [b"(pid=4711) one\n", b"(pid=4711) two\n"] == [data for _, data in node.take()]


def test_a_file_that_is_being_renamed_comes_later(node: Node) -> None:
    node.write(OUT, b"one\n")
    rotate(node)
    assert [] == node.take()
    node.write(OUT, b"two\n")
    assert [b"(pid=4711) one\n", b"(pid=4711) two\n"] == [data for _, data in node.take()]
