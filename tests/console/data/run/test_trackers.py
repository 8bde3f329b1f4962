"""A run's records in experiment trackers: each once, where it is found, and who made it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from console.data.run.narration import narrate
from console.data.run.trackers import tracker_records
from console.export.report import report_page
from launcher.runs.catalog import create_folder
from launcher.runs.writer import RunWriter
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.places import Assignment
from launcher.state import events as ev
from launcher.state.fold import TRACKERS, fold, fold_all
from launcher.state.run_state import RunState

SUBMITTED = ev.RunSubmitted(time=0.0, name="n", target="t", mode="local", num_processes=2)
PLACED = ev.GangPlaced(
    time=2.0, ranks=tuple(Assignment(r, 2, 0, 1, r, 2, agent=r, host=f"h{r}") for r in (0, 1))
)
PAGE = "https://tracking.example/#/experiments/1/runs/abc"
OURS = ev.TrackerLinked(time=3.0, tracker="mlflow", id="abc", group="1", store="https://t", url=PAGE)


def folder_of(rank: int, path: str = "/w/runs") -> ev.TrackerLinked:
    return ev.TrackerLinked(time=3.0 + rank, tracker="tensorboard", rank=rank, store=path)


def run(*facts: ev.Event, mode: str = "local") -> RunState:
    return fold_all([replace(SUBMITTED, mode=mode), PLACED, *facts], run="r")


def lines(state: RunState) -> list[str]:
    return [record.line for record in tracker_records(state)]


def test_a_record_that_several_ranks_write_is_one_and_names_them() -> None:
    assert [
        f"MLflow {PAGE} (--track)",
        "TensorBoard /w/runs (ranks 0-1)",
        "TensorBoard /x (rank 1)",
    ] == lines(run(OURS, folder_of(0), folder_of(1), folder_of(1, "/x")))


def test_a_folder_is_on_its_ranks_host_where_that_is_another_one() -> None:
    assert [
        f"MLflow {PAGE} (--track)",
        "TensorBoard /w/runs on h0 (rank 0)",
        "TensorBoard /w/runs on h1 (rank 1)",
    ] == lines(run(OURS, folder_of(0), folder_of(1), mode="cluster"))


def test_a_run_without_a_page_is_its_id_and_its_store() -> None:
    local = replace(OURS, url="", store="sqlite:///m.db", rank=0)
    offline = ev.TrackerLinked(time=4.0, tracker="wandb", rank=0, id="4j", store="/w/wandb/run-4j")

    assert [
        "MLflow run abc in sqlite:///m.db (rank 0)",
        "W&B run 4j in /w/wandb/run-4j (rank 0)",
    ] == lines(run(local, offline))


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "HTTPS", "//evil.example"])
def test_what_is_no_page_of_the_web_is_no_link(url: str) -> None:
    assert ["MLflow run abc in https://t (--track)"] == lines(run(replace(OURS, url=url)))


def test_what_an_unknown_tracker_or_a_rank_that_is_not_there_tells_is_shown_as_it_is() -> None:
    odd = ev.TrackerLinked(time=4.0, tracker="comet", rank=77, id="x")
    assert ["comet x (rank 77)"] == lines(run(odd, mode="cluster"))


def test_a_record_is_kept_once_over_all_attempts_and_their_number_is_bounded() -> None:
    again = ev.GangRestarted(time=9.0, attempt=1, reason="lost", in_place=True)
    state = run(OURS, replace(OURS, time=5.0), again, replace(OURS, time=10.0, attempt=1))
    assert (OURS,) == state.trackers
    for number in range(2 * TRACKERS):
        state = fold(state, folder_of(1, f"/{number}"))
    assert TRACKERS == len(state.trackers)


def test_the_first_record_of_each_tracker_is_narrated() -> None:
    before = run(OURS, folder_of(0))
    assert [f"tracked by MLflow {PAGE} (--track)", "tracked by TensorBoard /w/runs (rank 0)"] == list(
        narrate(run(), before)
    )
    assert [] == list(narrate(before, run(OURS, folder_of(0), folder_of(1))))


def test_the_report_links_pages_and_nothing_else(tmp_path: Path) -> None:
    spec = JobSpec(Target(TargetKind.SCRIPT, "/w/t.py"), num_processes=2)
    folder = create_folder(tmp_path, 1.0, spec)
    writer = RunWriter(folder, spec)
    hostile = replace(OURS, url='https://x/"><script>', id="evil", store="a<b>")
    for fact in (SUBMITTED, PLACED, OURS, hostile, replace(OURS, url="javascript:alert(1)"), folder_of(0)):
        writer.append(fact)
    writer.close()
    page = report_page(folder)

    assert f'<a href="{PAGE}" rel="noreferrer">{PAGE}</a>' in page
    assert '<a href="https://x/&quot;&gt;&lt;script&gt;"' in page
    assert 2 == page.count("<a ")
    assert "<td>/w/runs</td><td>rank 0</td>" in page
