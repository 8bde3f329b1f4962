"""Everything that README and the manual tell a user to type is typed here, as far as this machine can."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from launcher.runs.catalog import run_ids
from tests.documents import DOCUMENTS, MANUAL, ROOT, Block, blocks
from tests.notebooks import notebook
from tests.spark_cluster import Cluster
from tests.trainings import EXAMPLES

FIRST_RUN = "rankdeck run train.py -n 2"
LIMIT_S = 240
NOTHING: Mapping[str, str] = {}
_MEANS_A_RUN = re.compile(r"\b(?:last|ID)\b")


def of(language: str, *, needs: frozenset[str] = frozenset()) -> list[object]:
    """The documents that have such blocks, as parameters."""
    found = {path: chosen(path, language, needs) for path in DOCUMENTS}
    return [pytest.param(path, id=path.stem) for path, blocks_ in found.items() if blocks_]


def planned(command: str) -> str:
    """An example's command as a plan, since `test_same_result` trains all examples; another as it is."""
    of_example = command.startswith("rankdeck run launcher/examples/")
    return command.replace("rankdeck run ", "rankdeck run --dry-run ", 1) if of_example else command


def chosen(path: Path, language: str, needs: frozenset[str] = frozenset()) -> list[Block]:
    return [block for block in blocks(path) if (block.language, block.needs) == (language, needs)]


@dataclass(frozen=True)
class Place:
    """A project with the quickstart's script, and a home that all documents share."""

    project: Path
    home: Path

    def run(self, command: list[str], more: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            command,
            cwd=self.project,
            env={**os.environ, "RANKDECK_HOME": str(self.home), "PATH": path, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def type(self, command: str, code: int = 0, more: Mapping[str, str] = NOTHING) -> str:
        """Type a command into a shell; it must end with that code. What it writes to standard output."""
        done = self.run(["bash", "-c", command], more)
        assert code == done.returncode, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def execute(self, block: Block, more: Mapping[str, str] = NOTHING) -> None:
        """Run a program."""
        done = self.run([sys.executable, "-c", block.text], more)
        assert 0 == done.returncode, f"{block.text}\n{done.stdout}{done.stderr}"

    def with_runs(self, command: str) -> str:
        """The command, with the ids that a reader would put into it."""
        known = run_ids(self.home / "runs")
        named = {"ID": known[-1], "A": known[-1], "B": known[-2]} if len(known) > 1 else {}
        return re.sub(r"\b(?:ID|A|B)\b", lambda found: named.get(found[0], found[0]), command)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("manual")
    project = folder / "project"
    (project / "launcher").mkdir(parents=True)
    (project / "launcher" / "examples").symlink_to(ROOT / "launcher" / "examples")
    (project / "train.py").write_text(chosen(MANUAL / "quickstart.md", "python")[0].text)
    (project / "score.py").write_text(chosen(MANUAL / "predictions.md", "python")[0].text)
    (project / "rows.csv").write_text("a,b\n1.5,2\n3,4\n")
    made = Place(project, folder / "home")
    yield made
    made.type("rankdeck engine stop --force")


@pytest.mark.process
@pytest.mark.parametrize("path", of("sh"))
def test_what_a_user_is_told_to_type_does_what_is_said(place: Place, path: Path) -> None:
    has_run = False
    for block in chosen(path, "sh"):
        for typed, code in block.commands:
            command = planned(typed)
            if not has_run and _MEANS_A_RUN.search(command):
                place.type(FIRST_RUN)
                place.type(FIRST_RUN)  # so that two can be compared
            starts_one = command.startswith("rankdeck run ") and command == typed
            has_run = has_run or bool(_MEANS_A_RUN.search(command)) or starts_one
            place.type(place.with_runs(command), code)


@pytest.mark.process
@pytest.mark.parametrize("path", of("python"))
def test_programs_of_the_documents_run(place: Place, path: Path) -> None:
    for block in chosen(path, "python"):
        place.execute(block)


@pytest.mark.process
@pytest.mark.frameworks
@pytest.mark.parametrize("path", of("ipython"))
def test_cells_of_the_documents_run_in_a_notebook(place: Place, path: Path) -> None:
    with notebook(place.project) as book:
        for block in chosen(path, "ipython"):
            ran = book.run(block.text)
            assert ran.ok, ran.error[2]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_programs_that_cannot_run_here_are_python_at_least(path: Path) -> None:
    for block in blocks(path):
        if block.language == "python":
            compile(block.text, f"{path.name}:{block.line}", "exec")


@pytest.mark.parametrize("path", of("toml"))
def test_settings_of_the_documents_are_right(place: Place, tmp_path: Path, path: Path) -> None:
    (tmp_path / "home" / "config").mkdir(parents=True)
    for block in chosen(path, "toml"):
        (tmp_path / "home" / "config" / "config.toml").write_text(block.text)
        place.type("rankdeck config validate", more={"RANKDECK_HOME": str(tmp_path / "home")})


NEEDS_FRAMEWORKS = sorted(
    {
        command
        for path in DOCUMENTS
        for block in chosen(path, "sh", frozenset({"frameworks"}))
        for command, _ in block.commands
    }
)


@pytest.mark.process
@pytest.mark.parametrize("command", NEEDS_FRAMEWORKS)
def test_what_needs_a_framework_is_planned_by_its_rules(place: Place, command: str) -> None:
    (framework,) = {each.framework for each in EXAMPLES if f"{each.module}.py" in command}

    assert f"uses     {framework} (found in the source)" in place.type(planned(command))


@pytest.mark.spark
@pytest.mark.takes(360)
@pytest.mark.timeout(600)
def test_what_needs_spark_does_what_is_said_on_a_cluster(
    cluster: Cluster, place: Place, tmp_path: Path
) -> None:
    settings = {**cluster.conf(), "spark.master": cluster.url}
    text = "".join(f"{key} {value}\n" for key, value in settings.items())
    (tmp_path / "spark-defaults.conf").write_text(text)
    around = {"SPARK_CONF_DIR": str(tmp_path), "PYSPARK_PYTHON": sys.executable}
    needs = frozenset({"spark"})
    commands = (each for path in DOCUMENTS for block in chosen(path, "sh", needs) for each in block.commands)
    typed = dict.fromkeys((command.partition(" #")[0].strip(), code) for command, code in commands)
    # those of one engine after each other: each has a session, which keeps all slots for a while
    for by_name in (True, False):
        for command, code in typed:
            if ("--master" in command) == by_name:
                place.type(command.replace("spark://host:7077", cluster.url), code, around)
        place.type("rankdeck engine stop --force")
    for path in DOCUMENTS:
        for block in chosen(path, "python", needs):
            place.execute(block, around)
