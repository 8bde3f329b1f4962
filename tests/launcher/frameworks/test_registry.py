"""Which framework a target uses, and that a new row reaches the ranks: nothing else has to know it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from launcher.distributor import Distributor
from launcher.frameworks import registry
from launcher.frameworks.base import Call, Framework, Rendezvous, importing
from launcher.frameworks.registry import FRAMEWORKS, choose, detected
from launcher.frameworks.torch import TORCH
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.places import Assignment

RING = """
import os, sys
import ring
import launcher
launcher.publish({"argv": sys.argv[1:], **{k: os.environ.get(k) for k in ("RING_PLACE", "RING_RUN", "RANK")}})
"""
FUNCTION = """
import os, sys
import ring
def main(x):
    return (x, sys.argv[1:], os.environ["RING_PLACE"])
"""


def ring_environ(place: Assignment, rendezvous: Rendezvous) -> dict[str, str]:
    return {"RING_PLACE": f"{place.rank}/{place.world_size}", "RING_RUN": rendezvous.run_id}


def ring_argv(place: Assignment, rendezvous: Rendezvous, call: Call) -> Sequence[str]:
    return [f"--ring-port={rendezvous.port}", *call.args] if place.rank else call.args


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A framework that a row was added for, installed beside the target; the folder of both."""
    row = Framework("ring", importing("ring"), ring_environ, argv=ring_argv)
    monkeypatch.setattr(registry, "FRAMEWORKS", (row, *FRAMEWORKS))
    (tmp_path / "ring.py").touch()
    (tmp_path / "train.py").write_text(RING)
    (tmp_path / "call.py").write_text(FUNCTION)
    (tmp_path / "plain.py").write_text(RING.replace("import ring\n", ""))
    return tmp_path


def test_names_are_told_apart() -> None:
    assert len({framework.name for framework in FRAMEWORKS}) == len(FRAMEWORKS)


def test_a_target_that_no_framework_claims_gets_the_contract_of_torch() -> None:
    assert [] == detected(["", "import torch", "print('hello')"])
    assert TORCH is choose(JobSpec(Target(TargetKind.SCRIPT, "/no/such/file.py"))).framework


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import ring", True),
        ("def main():\n    import ring.all_reduce as r\n", True),
        ("from ring.mesh import Mesh", True),
        ("import os, sys as s, ring", True),
        ("import os; import ring", True),
        ("import os, wring", False),
        ("x = 1  # or import ring", False),
        ("import ringing", False),
        ("# import ring", False),
        ("print('import ring')", False),
    ],
)
def test_an_import_is_found_by_its_line(source: str, found: bool) -> None:
    assert found == importing("ring")(source)


@pytest.mark.process
@pytest.mark.usefixtures("mark")
@pytest.mark.filterwarnings("ignore:2 separate trainings with ring")
def test_the_environment_and_arguments_of_a_new_framework_reach_the_ranks(ring: Path) -> None:
    job = Distributor(2, workdir=ring).start("train.py", "--lr=0.1")
    first, second = job.results()

    assert {"argv": ["--lr=0.1"], "RING_PLACE": "0/2", "RING_RUN": job.id, "RANK": None} == first
    assert ("1/2", "--lr=0.1") == (second["RING_PLACE"], second["argv"][1])
    assert second["argv"][0].startswith("--ring-port=")


@pytest.mark.process
@pytest.mark.usefixtures("mark")
@pytest.mark.filterwarnings("ignore:2 separate trainings with ring")
def test_a_function_has_the_environment_and_finds_the_arguments_in_sys_argv(ring: Path) -> None:
    first, second = Distributor(2, workdir=ring).start("call.py:main", 3).results()

    assert (3, [], "0/2") == first
    assert (3, "1/2") == (second[0], second[2])
    assert ["--ring-port"] == [word.partition("=")[0] for word in second[1]]


@pytest.mark.process
@pytest.mark.usefixtures("mark")
def test_a_target_that_does_not_use_it_is_started_as_before(ring: Path) -> None:
    (found,) = Distributor(1, workdir=ring).start("plain.py", "--lr=0.1").results()

    assert {"argv": ["--lr=0.1"], "RING_PLACE": None, "RING_RUN": None, "RANK": "0"} == found
