"""What `engine status` says of a session."""

from __future__ import annotations

from typing import Any

import pytest

from console.cli.manage import _session_text

SESSION = {"application": "app-1", "master": "spark://m:7077", "cores": 4, "runs": 1, "idle_s": 0.0}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ", at most 4 cores"),
        ({"cores": 1, "runs": 0, "idle_s": 12.0}, ", at most 1 core, idle for 12s"),
        ({"cores": None}, ""),
    ],
)
def test_a_sessions_cores_and_idle_time(changes: dict[str, Any], said: str) -> None:
    assert _session_text({**SESSION, **changes}) == f"app-1 on spark://m:7077{said}"
