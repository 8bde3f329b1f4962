from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from launcher.agent import hello
from launcher.agent.boot import Boot
from launcher.agent.hello import AgentGpus, agent_gpus
from launcher.channel.handshake import read_hello
from launcher.spec.places import Device

if TYPE_CHECKING:
    import pytest

GPU = Device(0, "GPU-1", "H200", 141 << 30)
AFAR = Boot(agent=2, token="t", lifeline=True, cores=3, host="the driver's", address="")


def test_the_engine_understands_what_an_agent_says() -> None:
    said = hello.greeting(AFAR, AgentGpus((GPU,), False, "two are busy"), port=4000, address="10.0.0.7")
    heard = read_hello(2, said, None)

    assert (heard.agent, heard.port, heard.address, heard.cores) == (2, 4000, "10.0.0.7", 3)
    assert (heard.devices, heard.exclusive, heard.gpu_reason) == ((GPU,), False, "two are busy")
    assert (heard.pid, heard.executable) == (os.getpid(), sys.executable)
    assert heard.machine
    assert heard.host != "the driver's"
    assert heard.addresses


def test_an_agent_beside_its_engine_says_only_what_it_alone_knows() -> None:
    boot = Boot(agent=0, token="t", address="127.0.0.1", devices=(GPU,))
    said = hello.greeting(boot, agent_gpus(boot), port=1, address="ignored")

    assert said["address"] == "127.0.0.1"
    assert not {"machine", "addresses", "torch"} & said.keys()
    assert read_hello(0, said, None).devices == (GPU,)


def test_an_embedded_python_has_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", None)
    said = hello.greeting(AFAR, AgentGpus(), port=1, address="a")

    assert read_hello(2, said, None).executable == ""
