"""Which files of several hosts stand for which path."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launcher.state.artifacts import Artifact, is_artifact_path, latest, left_to, merged


def on(host: str, path: str, digest: str, *, first_rank: int = 0) -> Artifact:
    return Artifact(path, host, 1, digest, first_rank=first_rank)


A, B = on("a", "model.pt", "1"), on("b", "log.txt", "2", first_rank=2)


@pytest.mark.parametrize("path", ["a", "a/b", "/home/ann/x", "...", "a b\n\x1b", "caf\udce9"])
def test_paths_below_a_folder_are_accepted(path: str) -> None:
    assert is_artifact_path(path)


@pytest.mark.parametrize(
    "path", ["", "/", "..", "a/../b", "./a", "a//b", "a/", "a\0b", "x" * 256, "//a", "a/" * 3000 + "a"]
)
def test_paths_that_lead_elsewhere_or_cannot_be_names_are_refused(path: str) -> None:
    assert not is_artifact_path(path)


def test_the_last_line_of_a_file_counts() -> None:
    newer, gone = replace(A, digest="9"), replace(B, gone=True)
    assert latest([A, B, newer, gone]) == [newer]
    assert latest([gone, B]) == [B]


def test_hosts_are_merged_and_the_lowest_rank_keeps_the_path() -> None:
    ours, theirs = on("z", "log.txt", "1"), on("a", "log.txt", "2", first_rank=4)
    assert merged([theirs, ours, A]) == {"log.txt": ours, "model.pt": A, "rank-4/log.txt": theirs}


def test_the_same_content_on_two_hosts_is_one_file() -> None:
    assert list(merged([on("a", "x", "1"), on("b", "x", "1", first_rank=2)])) == ["x"]


def test_each_host_finds_its_own_files_and_those_that_only_others_have() -> None:
    ours, theirs = on("a", "log.txt", "1"), on("b", "log.txt", "2", first_rank=2)
    assert left_to([ours, theirs, A], "b") == {"log.txt": theirs, "model.pt": A}
    assert left_to([ours, theirs, A], "new") == {"log.txt": ours, "model.pt": A}


def test_a_file_of_a_later_attempt_wins_wherever_it_was_written() -> None:
    old, new = on("a", "snapshot.pt", "1"), replace(on("b", "snapshot.pt", "2"), attempt=1)
    assert merged([old, new])["snapshot.pt"] == new
    assert left_to([old, new], "a") == {"snapshot.pt": new}
