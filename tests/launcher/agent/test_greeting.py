from __future__ import annotations

import importlib.metadata
import os
import sys
from pathlib import Path

import pytest

from launcher.agent import hello
from launcher.agent.boot import Boot
from launcher.agent.hello import AgentGpus, agent_gpus
from launcher.channel.handshake import read_hello
from launcher.spec.places import Device

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


@pytest.mark.parametrize("found", [None, ""])
def test_a_torch_without_a_version_is_none(found: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: found)
    hello.torch_version.cache_clear()

    assert hello.torch_version() == ""
    hello.torch_version.cache_clear()


@pytest.mark.parametrize(
    ("line", "cuda"),
    [("cuda: Optional[str] = '12.8'", "12.8"), ("cuda = '11.7'", "11.7"), ("cuda: Optional[str] = None", "")],
)
def test_the_cuda_of_a_torch_that_is_not_imported(
    tmp_path: Path, line: str, cuda: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "torch"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise SystemExit('imported')")
    (folder / "version.py").write_text(f"__version__ = '2.9.0'\ndebug = False\n{line}\nhip = '6.4'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    hello.cuda_of_torch.cache_clear()

    assert hello.cuda_of_torch() == cuda
    hello.cuda_of_torch.cache_clear()


def test_an_embedded_python_has_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", None)
    said = hello.greeting(AFAR, AgentGpus(), port=1, address="a")

    assert read_hello(2, said, None).executable == ""
