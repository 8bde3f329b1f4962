"""What a process has from its shell, taken on by another one as far as it may be."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from launcher import serialization
from launcher.spec.inherited import Inherited

SHOW = """
import json, sys
from launcher import serialization
from launcher.spec.inherited import Inherited
serialization.from_plain(Inherited, json.loads(sys.argv[1])).apply()
print(json.dumps(serialization.to_plain(Inherited.here())))
"""


def taken_on(wanted: Inherited | Mapping[str, Any]) -> Inherited:
    """What a process has that has taken these on."""
    text = json.dumps(serialization.to_plain(wanted))
    done = subprocess.run([sys.executable, "-c", SHOW, text], capture_output=True, text=True, check=True)
    return serialization.from_plain(Inherited, json.loads(done.stdout))


def test_all_of_it_comes_over() -> None:
    core = min(os.sched_getaffinity(0))
    wanted = Inherited(umask=0o137, limits={"NOFILE": 123, "CORE": 0}, cores=(core,), nice=os.nice(0) + 7)
    now = taken_on(wanted)

    assert (0o137, (core,), os.nice(0) + 7) == (now.umask, now.cores, now.nice)
    assert (123, 0) == (now.limits["NOFILE"], now.limits["CORE"])


def test_our_own_is_what_another_one_gets() -> None:
    here = Inherited.here()

    assert here == serialization.from_plain(Inherited, json.loads(json.dumps(serialization.to_plain(here))))
    assert here == taken_on(here)


def test_what_may_not_be_had_stays_as_it_is() -> None:
    here = Inherited.here()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    now = taken_on({"limits": {"NOFILE": hard + 10, "SHOES": 3}, "cores": [99_999], "nice": os.nice(0)})

    assert here.cores == now.cores
    assert hard == now.limits["NOFILE"]
    assert here.umask == now.umask


@pytest.mark.parametrize("endless", [-1, resource.RLIM_INFINITY])
def test_no_limit_means_the_hard_one(endless: int) -> None:
    code = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (50, 200))\n" + SHOW
    text = json.dumps({"limits": {"NOFILE": endless}})
    done = subprocess.run([sys.executable, "-c", code, text], capture_output=True, text=True, check=True)

    assert 200 == json.loads(done.stdout)["limits"]["NOFILE"]


def test_looking_changes_nothing() -> None:
    before = os.umask(0o077)
    try:
        assert 0o077 == Inherited.here().umask
        assert 0o077 == os.umask(0o077)
    finally:
        os.umask(before)
