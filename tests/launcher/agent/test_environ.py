"""What all ranks of a gang share, made from where they start and what the spec adds."""

from __future__ import annotations

import os

import pytest

from launcher.agent.boot import base_environ, yielding
from launcher.frameworks.torch import defaults


@pytest.mark.parametrize(
    ("python", "path", "expected"),
    [
        ("/venv/bin/python", "/usr/bin:/bin", "/venv/bin:/usr/bin:/bin"),
        ("/venv/bin/python", "/venv/bin:/bin", "/venv/bin:/bin"),
        ("/venv/bin/python", "/bin:/venv/bin", "/venv/bin:/bin:/venv/bin"),
        ("python3", "/usr/bin:/bin", "/usr/bin:/bin"),
        ("", "/usr/bin:/bin", "/usr/bin:/bin"),
        ("/venv/bin/python", None, f"/venv/bin:{os.defpath}"),
    ],
)
def test_the_interpreters_folder_leads_the_path(python: str, path: str | None, expected: str) -> None:
    caller = {} if path is None else {"PATH": path}
    assert expected == base_environ(caller, {}, python=python)["PATH"]


def test_neither_argument_is_changed() -> None:
    caller, extra = {"PATH": "/bin"}, {"A": "1"}
    base_environ(caller, extra, python="/venv/bin/python")
    assert ({"PATH": "/bin"}, {"A": "1"}) == (caller, extra)


def test_what_spark_s_daemon_keeps_to_itself_stays_there() -> None:
    own = {"PATH": "/bin", "PYTHON_WORKER_FACTORY_SECRET": "s", "PYTHON_WORKER_FACTORY_PORT": "1", "A": "1"}
    env = base_environ(own, {}, python="/bin/python")
    assert {"PATH", "A", "PYTHONUNBUFFERED"} == env.keys()


def test_the_interface_that_a_host_has_chosen_wins_over_ours() -> None:
    rank = {"RANK": "0", "GLOO_SOCKET_IFNAME": "eth0", "NCCL_SOCKET_IFNAME": "=eth0"}
    own, names = {"GLOO_SOCKET_IFNAME": "ib0", "RANK": "stale"}, list(defaults("eth0"))
    assert {"RANK": "0", "NCCL_SOCKET_IFNAME": "=eth0"} == yielding(rank, own, names)
    assert rank == yielding(rank, {}, names)


def test_the_error_handling_that_a_host_has_chosen_for_nccl_wins_over_ours() -> None:
    rank = defaults("")
    assert {} == yielding(rank, {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "3"}, list(rank))
