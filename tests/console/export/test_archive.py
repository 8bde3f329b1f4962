"""One file of a run that opens anywhere, and commands that take it, or a folder, for an id."""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from console.cli import history, manage
from console.cli.run_lookup import ALL, find
from console.data.curves.making import curves_of
from console.export.archive import COPIED, unpack
from console.export.report import MAX_POINTS, curves, report_page, thinned
from launcher.errors import AgentLost, RecordError, RunNotFound, SpecError
from launcher.runs import paths
from launcher.runs.curves import CurveWriter
from launcher.runs.logs.line_index import LineIndex
from launcher.runs.logs.writer import Chunk
from launcher.runs.paths import runs_root
from launcher.runs.reader import FactTail, read_spec, read_state, status_of
from launcher.runs.writer import RunWriter
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.places import Assignment
from launcher.state import events as ev
from launcher.state.run_state import Phase
from tests.commands import rankdeck

ID = "20260101-120000-000abc"
EVIL = "<script>alert(1)</script>\x1b[2J</pre>&\u202e\ud800"
SPEC = JobSpec(Target(TargetKind.SCRIPT, "/w/t.py"), num_processes=2, env={"HF_TOKEN": "hunter2"}, name=EVIL)
PLACED = ev.GangPlaced(time=2.0, ranks=tuple(Assignment(r, 2, r, 2, 0, 1, 0, f"h{EVIL}") for r in (0, 1)))


def facts() -> list[ev.Event]:
    raised = ev.RankRaised(time=5.0, rank=1, kind="ValueError", message=EVIL, traceback=f"Traceback\n{EVIL}")
    return [
        ev.RunSubmitted(time=1.0, name=EVIL, target="t.py", mode="local", num_processes=2, user=EVIL),
        PLACED,
        *(ev.RankEntered(time=3.0, rank=r) for r in (0, 1)),
        *(
            ev.RankReported(time=3.0 + i, rank=0, step=i, metrics={EVIL: 9.0 - i, "nan": float("nan")})
            for i in range(5)
        ),
        ev.NoteMade(time=4.0, text=EVIL),
        raised,
        ev.RankExited(time=6.0, rank=1, exit_code=1),
    ]


ENDED = ev.RunEnded(time=9.0, state="failed", exit_code=1, why=EVIL, rank=1)


def make(folder: Path, *, ended: bool = True) -> RunWriter:
    folder.mkdir(parents=True, mode=0o700)
    writer = RunWriter(folder, SPEC, payload=b"pickle")
    for fact in facts():
        writer.append(fact)
    data = f"{EVIL}\n".encode(errors="replace") * 100
    writer.output([(Chunk(int(4e9), 1, len(data), 2), memoryview(data))])
    value = writer.open_result(0)
    value.write(memoryview(b"value"))
    value.commit()
    if ended:
        writer.append(ENDED)
        writer.close()
    return writer


@pytest.fixture
def run(home: Path) -> Path:
    folder = home / "runs" / ID
    make(folder)
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def export(*words: str) -> Result:
    return CliRunner().invoke(manage.export, list(words), standalone_mode=False)


def names(file: Path) -> set[str]:
    with zipfile.ZipFile(file) as packed:
        assert packed.testzip() is None
        return set(packed.namelist())


def test_an_export_holds_the_folder_and_a_page(run: Path, here: Path) -> None:
    assert f"{ID}.zip\n" == export(ID).stdout
    held = names(here / f"{ID}.zip")
    expected = {f"{ID}/{p.relative_to(run)}" for p in run.rglob("*") if p.is_file() and p.suffix != ".pickle"}
    assert {*expected, "report.html"} == held
    assert 0o600 == stat.S_IMODE((here / f"{ID}.zip").stat().st_mode)
    assert [f"{ID}.zip"] == os.listdir(here)
    with zipfile.ZipFile(here / f"{ID}.zip") as packed:
        assert not any(b"hunter2" in packed.read(name) for name in packed.namelist())


def test_values_go_along_only_if_asked_and_logs_unless_not(run: Path, here: Path) -> None:
    export(ID, "-o", "full.zip", "--results")
    export(ID, "-o", "bare.zip", "--no-logs")
    assert {f"{ID}/target.pickle", f"{ID}/result/00000.pickle"} < names(here / "full.zip")
    assert not [name for name in names(here / "bare.zip") if name.startswith((f"{ID}/logs", f"{ID}/target"))]
    assert "Last output" not in page_in(here / "bare.zip")


def page_in(file: Path) -> str:
    with zipfile.ZipFile(file) as packed:
        return packed.read("report.html").decode()


@pytest.mark.parametrize("linked", ["logs/0/00001.err", "logs/0", "logs", "spec.json", "samples"])
def test_nothing_outside_the_folder_is_exported(run: Path, here: Path, linked: str) -> None:
    outside = here.parent / "outside"
    (run / linked).rename(outside)
    for file in [outside, *outside.rglob("*")]:
        if file.is_file():
            file.write_text("a secret of the caller\n")
    (run / linked).symlink_to(outside)

    export(ID)

    with zipfile.ZipFile(here / f"{ID}.zip") as packed:
        assert not [name for name in packed.namelist() if b"a secret" in packed.read(name)]
        assert not [name for name in packed.namelist() if name.startswith(f"{ID}/{linked}")]


@pytest.mark.timeout(20)
def test_an_export_waits_for_no_fifo(run: Path, here: Path) -> None:
    (run / "logs/0/00001.err").unlink()
    os.mkfifo(run / "logs/0/00001.err")

    assert f"{ID}.zip\n" == export(ID).stdout
    assert f"{ID}/logs/0/00001.err" not in names(here / f"{ID}.zip")


def test_a_file_that_is_there_is_replaced_only_by_force(run: Path, here: Path) -> None:
    (here / "mine.zip").write_text("mine")
    assert isinstance(export(ID, "-o", "mine.zip").exception, SpecError)
    assert "mine" == (here / "mine.zip").read_text()
    assert export(ID, "-o", "mine.zip", "--force").exception is None
    assert "report.html" in names(here / "mine.zip")
    assert ["mine.zip"] == os.listdir(here)


@pytest.mark.parametrize("out", ["nowhere/run.zip", "/dev/full/run.zip"])
def test_where_nothing_can_be_written_nothing_is_left(run: Path, here: Path, out: str) -> None:
    assert isinstance(export(ID, "-o", out).exception, RecordError)
    assert [] == os.listdir(here)


def test_a_run_that_goes_on_is_exported_as_far_as_it_is(home: Path, here: Path) -> None:
    writer = make(home / "runs" / ID, ended=False)
    assert export(ID).exception is None
    copy = unpack(here / f"{ID}.zip")
    assert Phase.RUNNING is read_state(copy).phase
    assert not (copy / paths.RESERVE).exists()
    writer.close()


def test_what_was_exported_while_it_went_on_is_no_live_run(home: Path, here: Path) -> None:
    writer = make(home / "runs" / ID, ended=False)
    assert export(ID).exception is None
    packed = here / f"{ID}.zip"
    status = status_of(unpack(packed))

    assert ("lost", COPIED) == (status.state, status.why)
    assert not status_of(writer.folder).state.final, "the run itself goes on"
    shown = rankdeck("show", packed)
    assert COPIED in shown.stdout + shown.stderr
    followed = rankdeck("logs", "-f", packed)
    assert AgentLost.exit_code == followed.returncode, "and ends at once"
    writer.close()


def test_a_folder_under_another_name_exports_under_its_own(run: Path, here: Path) -> None:
    run.rename(here / "copied")
    assert export("./copied", "-o", "x.zip").exception is None
    assert ID == find("x.zip").name


# --- the page

VOID = {"meta", "br", "link", "img"}


class Reader(HTMLParser):
    """Collects tags, and checks that they close in the order in which they were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "data")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop()


def test_the_page_is_whole_and_lets_nothing_in(run: Path) -> None:
    text = report_page(run)
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert [] == reader.open
    assert {"table", "svg", "polyline", "pre", "details"} < reader.seen
    assert not reader.seen & {"script", "iframe", "img", "link", "object"}
    assert [] == reader.addresses
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "&lt;script&gt;" in text
    assert "hunter2" not in text
    for word in ("First failure: rank 1", "Traceback", "failed, exit 1", "Last output", "rank 1, stderr"):
        assert word in text


def test_a_page_can_be_made_of_an_almost_empty_folder(tmp_path: Path) -> None:
    assert "submitted" in report_page(tmp_path)


def test_a_page_of_many_long_logs_stays_small(tmp_path: Path) -> None:
    folder = tmp_path / ID
    writer = make(folder, ended=False)
    for rank in (0, 1):
        data = memoryview(b"x" * 5_000_000)
        writer.output([(Chunk(1, rank, len(data), 1), data)])
    writer.close()
    assert len(report_page(folder)) < 200_000


def test_curves_leave_out_what_cannot_be_drawn() -> None:
    told = [
        ev.RankReported(
            time=float(i), rank=0, step=i, metrics={"loss": value, "once": 1.0} if not i else {"loss": value}
        )
        for i, value in enumerate([1.0, float("inf"), -1e308, 1e308, float("nan")])
    ]
    drawn = list(curves(told))
    assert 1 == len(drawn)
    lines = re.findall(r'points="([^"]*)"', drawn[0])
    assert [1, 2] == [len(line.split()) for line in lines]
    assert not re.search("nan|inf", "".join(lines))
    assert "loss: 1 → nan" in drawn[0]


def test_long_series_are_thinned_and_keep_their_ends() -> None:
    points = [(float(i), 0.0) for i in range(100_000)]
    kept = thinned(points, MAX_POINTS)
    assert MAX_POINTS == len(kept)
    assert [points[0], points[-1]] == [kept[0], kept[-1]]


# --- the other way


@pytest.mark.process
def test_commands_take_a_file_and_a_folder_for_an_id(run: Path, here: Path) -> None:
    export(ID, "-o", "run.zip")
    run.rename(here / "copied")
    for place in ("run.zip", here / "copied", "copied"):
        shown = rankdeck("show", place, cwd=here)
        assert (0, True) == (shown.returncode, ID in shown.stdout or "copied" in shown.stdout), shown.stderr
        assert 100 == len(rankdeck("logs", place, "-r", "1", cwd=here).stderr.splitlines())
    assert {"run.zip", "copied"} == set(os.listdir(here))


def test_an_unpacked_file_goes_with_the_process(
    run: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(ID, "-o", "run.zip")
    scratch = here / "tmp"
    scratch.mkdir()
    done = rankdeck("show", "run.zip", cwd=here, env={"TMPDIR": str(scratch)})
    assert 0 == done.returncode, done.stderr
    assert [] == os.listdir(scratch)


def test_an_export_reads_as_the_run_did(run: Path, here: Path) -> None:
    export(ID)
    copy = find(f"{ID}.zip", ALL)
    assert FactTail(run).poll() == FactTail(copy).poll()
    assert read_state(run).why == read_state(copy).why == EVIL
    assert read_spec(run) == read_spec(copy)
    counts = []
    for folder in (run, copy):
        index = LineIndex(folder)
        while index.poll():
            pass
        counts.append(len(index))
        index.close()
    assert [100, 100] == counts


def packed(file: Path, *entries: tuple[str, bytes, int]) -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data, mode in [(f"{ID}/events.jsonl", b"", 0o100600), *entries]:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            made.writestr(entry, data)
    return file


@pytest.mark.parametrize(
    "name",
    ["../evil", f"{ID}/../../evil", "/tmp/evil", f"{ID}/logs/../../evil", "other/evil", f"{ID}\\..\\evil"],
)
def test_nothing_leads_out_of_the_folder(here: Path, name: str) -> None:
    copy = unpack(packed(here / "x.zip", (name, b"evil", 0o100600)))
    assert ["events.jsonl"] == [p.name for p in copy.parent.rglob("*") if p.is_file()]


def test_no_link_is_made(here: Path) -> None:
    copy = unpack(packed(here / "x.zip", (f"{ID}/logs", b"/etc", 0o120777), (f"{ID}/logs/x", b"y", 0o100777)))
    assert not (copy / "logs").is_symlink()
    assert 0o600 == stat.S_IMODE((copy / "logs" / "x").stat().st_mode)


def bomb(file: Path, name: str, size: int = 1 << 30) -> Path:
    """A file of a run, one member of which is made of `size` zeros."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as made:
        for member in ("events.jsonl", "spec.json", "status.json"):
            made.write(file.parent.parent / f"home/runs/{ID}/{member}", f"{ID}/{member}")
        block = bytes(1 << 20)
        with made.open(f"{ID}/{name}", "w", force_zip64=True) as target:
            for _ in range(size >> 20):
                target.write(block)
    return file


def test_a_bomb_is_not_unpacked(run: Path, here: Path) -> None:
    file, scratch = bomb(here / "x.zip", "logs/0/00000.out"), here / "tmp"
    scratch.mkdir()
    assert file.stat().st_size < 2 << 20
    shown = rankdeck("show", file, cwd=here, env={"TMPDIR": str(scratch)})
    assert (0, True) == (shown.returncode, ID in shown.stdout), shown.stderr
    for command, *more in (["logs"], ["export", "-o", "again.zip"], ["attach"]):
        done = rankdeck(command, file, *more, cwd=here, env={"TMPDIR": str(scratch)})
        assert (70, "") == (done.returncode, done.stdout)
        assert "more than 100 times its size" in done.stderr
        assert 1 == len(done.stderr.splitlines())
    assert [] == os.listdir(scratch)


def test_what_does_not_fit_is_not_begun(run: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export(ID, "-o", "run.zip")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(RecordError, match="more than half of what is free there"):
        unpack(here / "run.zip")


def test_only_what_is_asked_for_comes_out(run: Path, here: Path) -> None:
    export(ID, "-o", "run.zip", "--results")
    told, whole = unpack(here / "run.zip", ()), unpack(here / "run.zip")
    names = {p.relative_to(told).as_posix() for p in told.rglob("*") if p.is_file()}
    assert {"spec.json", "events.jsonl", "status.json"} <= names
    assert not [name for name in names if name.startswith("logs") or name.endswith(".pickle")]
    assert (whole / "logs/0/chunks").exists()
    assert not (whole / "report.html").exists()


def test_curves_go_along_and_come_out(run: Path, here: Path) -> None:
    for path in (run / "curves").iterdir():
        path.unlink()
    writer = CurveWriter(run)
    writer.take(ev.RankReported(time=3.0, rank=0, step=7, metrics={"loss": 0.5}))
    writer.flush()
    writer.close()
    (run / "curves/.points.partial").write_bytes(b"of a writer that was killed")
    export(ID, "-o", "run.zip")

    assert [7] == curves_of(unpack(here / "run.zip", ())).points["loss"].step.tolist()
    assert [7] == curves_of(unpack(here / "run.zip")).points["loss"].step.tolist()
    assert f"{ID}/curves/.points.partial" not in names(here / "run.zip")


def test_what_a_killed_process_left_goes_with_the_next(run: Path, here: Path) -> None:
    export(ID, "-o", "run.zip")
    scratch = here / "tmp"
    scratch.mkdir()
    env = {**os.environ, "TMPDIR": str(scratch)}
    code = "import os; from pathlib import Path; from console.export.archive import unpack; "
    code += "unpack(Path('run.zip')); os.kill(os.getpid(), {})"
    for number, left in ((signal.SIGKILL, 1), (signal.SIGTERM, 0)):
        done = subprocess.run(
            [sys.executable, "-c", code.format(int(number))], cwd=here, env=env, check=False
        )
        assert done.returncode != 0
        assert left == len(os.listdir(scratch))


@pytest.mark.parametrize(
    "make_file",
    [
        lambda p: p.write_bytes(b"PK\x03\x04 torn"),
        lambda p: p.write_bytes(b""),
        lambda p: packed(p, (f"{ID}/x", b"a", 0o100600), (f"{ID}/x/y", b"b", 0o100600)),
    ],
    ids=["torn", "empty", "a file as a folder"],
)
def test_a_file_that_cannot_be_unpacked_is_told(here: Path, make_file: Callable[[Path], object]) -> None:
    make_file(here / "x.zip")
    with pytest.raises(RecordError, match=r"x\.zip"):
        unpack(here / "x.zip")


def test_a_place_without_a_run_is_told(home: Path, here: Path) -> None:
    with zipfile.ZipFile(here / "other.zip", "w") as other:
        other.writestr("readme", "no run")
    for place, said in [
        ("other.zip", "no run"),
        (".", "holds no run"),
        ("./no", "there is no"),
        ("no.zip", "there is no"),
    ]:
        with pytest.raises(RunNotFound, match=said):
            find(place)
    with pytest.raises(RunNotFound, match="no run is called"):
        find("nothing")


def test_an_id_comes_before_a_file_of_its_name(run: Path, here: Path) -> None:
    (here / ID).mkdir()
    assert run == find(ID)
    assert runs_root() / ID == find("last")


# --- rm and prune


def test_rm_takes_ids_and_no_places(run: Path, here: Path) -> None:
    run_two = run.with_name("20260101-120001-000abc")
    make(run_two)
    runner = CliRunner()
    refused = runner.invoke(manage.rm, [str(run)], standalone_mode=False)
    assert isinstance(refused.exception, RunNotFound)
    only_said = runner.invoke(manage.rm, ["--dry-run", ID], standalone_mode=False)
    assert f"{ID}\n" == only_said.output
    assert run.exists()
    assert f"{ID}\n{run_two.name}\n" == runner.invoke(manage.rm, [ID, run_two.name]).output
    assert [] == os.listdir(run.parent)


def test_prune_goes_by_its_options_and_the_settings(home: Path) -> None:
    stamps = [time.strftime("%Y%m%d-%H%M%S", time.gmtime(time.time() - 86400 * day)) for day in (3, 2, 1)]
    ids = [f"{stamp}-000abc" for stamp in stamps]
    for name in ids:
        make(home / "runs" / name)
    runner = CliRunner()

    def prune(*words: str) -> list[str]:
        return runner.invoke(manage.prune, list(words), catch_exceptions=False).output.splitlines()

    (home / "config").mkdir()
    (home / "config" / "config.toml").write_text("[retention]\ndays = 0\n")
    assert [] == prune()
    assert ids[:1] == prune("--keep", "2", "--dry-run")
    assert ids[:1] == prune("--keep", "2")
    assert ids[1:] == prune("--older-than", "12h", "--dry-run")
    assert ids[1:] == prune("--max-bytes", "0", "--dry-run")
    (home / "config" / "config.toml").write_text("[retention]\ndays = 0\nruns = 1")
    assert ids[1:2] == prune()


def test_history_takes_a_place_too(run: Path, here: Path) -> None:
    export(ID, "-o", "run.zip")
    done = CliRunner().invoke(history.show, ["run.zip"], standalone_mode=False)
    assert done.exception is None
    assert "failed, exit 1" in done.output
