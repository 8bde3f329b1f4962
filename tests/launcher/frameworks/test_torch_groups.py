"""What torch does with groups that are gone, which a rank must survive."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.distributor import Distributor
from tests.targets import ddp_groups

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark")]


def test_a_model_may_outlive_its_group(tmp_path: Path) -> None:
    """torch 2.13 alone hangs in one of every few trainings."""
    distributor = Distributor(2, root=tmp_path / "runs", timeout_s=120)

    assert 40 == distributor.run(ddp_groups.train, str(tmp_path / "store"), 40)
