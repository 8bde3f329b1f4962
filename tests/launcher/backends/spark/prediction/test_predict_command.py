"""`rankdeck predict`, as a person types it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import last, rankdeck
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
