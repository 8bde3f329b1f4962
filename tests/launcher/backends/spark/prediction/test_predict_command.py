"""`rankdeck predict`, as a person types it."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import engines
from tests.commands import Foreground, last, rankdeck, until
from tests.spark_cluster import Cluster


@pytest.mark.spark
def test_the_command_with_a_module_beside_the_function(
    cluster: Cluster, undisturbed: None, tmp_path: Path
) -> None:
    (tmp_path / "helper.py").write_text("def combine(a, factor):\n    return a * factor\n")
    (tmp_path / "score.py").write_text(
        "import helper\n"
        "print('imported')\n"
        "def load(device, factor: float = 1.0):\n"
        "    return lambda a: helper.combine(a, factor)\n"
        "def broken(device):\n"
        "    raise OSError('no weights here')\n"
    )
    (tmp_path / "in.csv").write_text("a,name\n1.5,x\n2.5,y\n,z\n")
    common = ["--input", "in.csv", "--columns", "a", "--master", cluster.url]
    csv = [
        "--input-option",
        "header=true",
        "--input-option",
        "inferSchema=true",
        "--output-option",
        "header=true",
    ]
    conf = [word for key, value in cluster.conf().items() for word in ("--conf", f"{key}={value}")]

    done = rankdeck(
        "predict",
        "score.py:load",
        *common,
        *csv,
        *conf,
        "--output",
        "out.csv",
        "--param",
        "factor=2",
        cwd=tmp_path,
    )

    assert 0 == done.returncode, done.stderr
    assert f"3 rows predicted into {tmp_path}/out.csv" in done.stderr
    (part,) = (tmp_path / "out.csv").glob("part-*.csv")
    assert ["a,name,prediction", "1.5,x,3.0", "2.5,y,5.0", ",z,"] == part.read_text().splitlines()
    assert "imported" in done.stderr
    again = rankdeck("rerun", last().name)
    assert 0 == again.returncode, again.stderr
    assert "nothing was left to predict" in again.stderr
    failed = rankdeck("predict", "score.py:broken", *common, *csv, *conf, "--output", "no.csv", cwd=tmp_path)
    assert 1 == failed.returncode
    assert "raised OSError: loading for partition 0: no weights here" in failed.stderr


@pytest.mark.spark
def test_a_killed_driver_costs_only_what_was_not_done(
    spark_here: None, mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        table = pa.table({"a": [float(100 * number + row) for row in range(100)]})
        (tmp_path / "in").mkdir(exist_ok=True)
        pq.write_table(table, tmp_path / "in" / f"{number:02}.parquet")
    hold, output = tmp_path / "hold", tmp_path / "out"
    hold.touch()
    (tmp_path / "score.py").write_text(
        "import os, time\n"
        "def load(device, hold):\n"
        "    def score(a):\n"
        "        deadline = time.monotonic() + 60\n"
        "        while a[0] >= 800 and os.path.exists(hold) and time.monotonic() < deadline:\n"
        "            time.sleep(0.01)\n"
        "        return a + 1\n"
        "    return score\n"
    )
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    words: list[str | Path] = [
        *("predict", f"{tmp_path}/score.py:load", "--master", "local[2]", "--param", f"hold={hold}"),
        *("--input", tmp_path / "in", "--output", output),
    ]
    with Foreground(*words, folder=tmp_path) as command:
        command.await_narration("predicting: ")
        until(lambda: 2 == len(list((output / "_rankdeck").glob("*.done"))))
        for pid in engines.pids():
            os.kill(pid, signal.SIGKILL)
        assert 75 == command.finish(), command.narrated
    shares = [int(share) for share in re.findall(r"predicting: .* rows, (\d+)%", command.narrated)]
    assert 33 <= max(shares) <= 66, "nothing of the last third is predicted"
    hold.unlink()

    done = rankdeck(*words)

    assert 0 == done.returncode, done.stderr
    assert f"400 rows predicted into {output}, after 66% of the input before" in done.stderr
    scored = pq.read_table(output).to_pydict()
    assert list(map(float, range(1200))) == sorted(scored["a"])
    assert [a + 1 for a in scored["a"]] == scored["prediction"]
    engines.end_all()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["score.py"], "names none (score.py:load)"),
        (["score.py:nothing"], "nothing"),
        (["score.py:load", "--param", "size=3"], "size"),
        (["score.py:load", "--mode", "local"], "runs in tasks of Spark, and the mode is local"),
        (["raises.py:load"], "raises.py:load cannot be loaded: ValueError: at import"),
        (["score.py:both"], "both must take a device"),
    ],
)
def test_the_command_refuses_what_cannot_work(words: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "score.py").write_text("def load(device): ...\ndef both(device, model): ...\n")
    (tmp_path / "raises.py").write_text("def load(device): ...\nraise ValueError('at import')\n")

    done = rankdeck("predict", *words, "--input", "/in", "--output", "/out", cwd=tmp_path)

    assert 2 == done.returncode, done.stderr
    assert said in done.stderr


def test_a_dry_run_prints_what_would_be_read_and_written_and_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "score.py").write_text("def load(device): ...\n")
    words: list[str | Path] = [
        *("--input", "sales.orders", "--input-format", "jdbc", "--input-option", "password=hunter2"),
        *("--output", "scored.parquet", "--columns", "a,b", "--shape", "b=2x3", "--returns", "array<float>"),
        *("--master", "spark://h:7077", "-n", "1"),
    ]
    done = rankdeck("predict", "score.py:load", *words, "--dry-run", cwd=tmp_path)

    assert 0 == done.returncode, done.stderr
    assert [
        f"target   {tmp_path}/score.py:load",
        f"workdir  {tmp_path}",
        "spark    spark://h:7077",
        "python   the executors' own: PYSPARK_PYTHON or spark.pyspark.python",
        "reads    sales.orders (jdbc, password=***)",
        "given    a, b, b as 2x3, in batches of 1,024 rows at most",
        f"writes   {tmp_path}/scored.parquet (parquet), with prediction array<float>",
        "exists   resume",
        "by       1 worker",
    ] == [line.rstrip() for line in done.stdout.splitlines()]
    assert not (tmp_path / "scored.parquet").exists()
