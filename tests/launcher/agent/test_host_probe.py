"""The probes of a host: what they find, and what they say where they find nothing."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.agent import host_probe, installed, memory_groups, nvml
from launcher.channel import network
from launcher.state.host_facts import DialFacts, HostQuestions, PeerAddress
from tests.fakes.nvml_build import FakeGpu, FakeNvml

pytest_plugins = ("tests.launcher.nvml_fixture",)
GIB = 1 << 30


def group(folder: Path, name: str, most: str, used: int) -> None:
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "memory.max").write_text(f"{most}\n")
    (place / "memory.current").write_text(f"{used}\n")


def proc(folder: Path, groups: str) -> Path:
    (folder / "self").mkdir(parents=True)
    (folder / "meminfo").write_text(f"MemTotal: {64 << 20} kB\nMemFree: 1 kB\nMemAvailable: {60 << 20} kB\n")
    (folder / "self/cgroup").write_text(groups)
    return folder


def test_memory_is_that_of_the_host(tmp_path: Path) -> None:
    found = host_probe.memory(proc(tmp_path / "proc", "0::/\n"), tmp_path / "none")

    assert found == {"memory": 64 * GIB, "memory_free": 60 * GIB}


def test_memory_is_that_of_the_control_group_that_has_least(tmp_path: Path) -> None:
    group(tmp_path / "groups", "pod", str(8 * GIB), 5 * GIB)
    group(tmp_path / "groups", "pod/task", "max", GIB)
    found = host_probe.memory(proc(tmp_path / "proc", "1:cpu:/x\n0::/pod/task\n"), tmp_path / "groups")

    assert found == {"memory": 8 * GIB, "memory_free": 3 * GIB}


def first(folder: Path, name: str, most: int, used: int) -> None:
    """A group of version 1."""
    place = folder / "memory" / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "memory.limit_in_bytes").write_text(f"{most}\n")
    (place / "memory.usage_in_bytes").write_text(f"{used}\n")
    (place / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")


NO_LIMIT = 9223372036854771712  # as version 1 writes it


@pytest.mark.parametrize(("task", "least"), [(NO_LIMIT, 8 * GIB), (4 * GIB, 4 * GIB)])
def test_groups_of_version_1_limit_memory_too(tmp_path: Path, task: int, least: int) -> None:
    groups = tmp_path / "groups"
    first(groups, "", NO_LIMIT, 50 * GIB)
    first(groups, "pod", 8 * GIB, 5 * GIB)
    first(groups, "pod/task", task, GIB)
    lines = "12:cpu,cpuacct:/x\n9:memory:/pod/task\n1:name=systemd:/y\n0::/z\n"
    place = proc(tmp_path / "proc", lines)

    assert host_probe.memory(place, groups) == {"memory": least, "memory_free": 3 * GIB}
    assert memory_groups.oom_counter(place, groups) == groups / "memory/pod/task/memory.oom_control"


@pytest.mark.parametrize("own", ["/docker/abc", "/../abc"])
def test_a_container_that_is_told_of_the_hosts_group_sees_its_own(tmp_path: Path, own: str) -> None:
    groups = tmp_path / "groups"
    first(groups, "", 8 * GIB, 5 * GIB)
    first(groups, "../abc", GIB, GIB)  # somebody else's
    place = proc(tmp_path / "proc", f"9:memory:{own}\n")

    assert host_probe.memory(place, groups) == {"memory": 8 * GIB, "memory_free": 3 * GIB}
    assert memory_groups.oom_counter(place, groups) == groups / "memory/memory.oom_control"


def test_kills_are_counted_in_our_own_group_or_nowhere(tmp_path: Path) -> None:
    groups, place = tmp_path / "groups", proc(tmp_path / "proc", "0::/pod/task\n")
    group(groups, "pod", "max", GIB)
    group(groups, "pod/task", "max", GIB)
    (groups / "pod/memory.events").write_text("oom_kill 7\n")
    assert memory_groups.oom_counter(place, groups) is None

    (groups / "pod/task/memory.events").write_text("oom_kill 1\n")
    assert memory_groups.oom_counter(place, groups) == groups / "pod/task/memory.events"
    assert memory_groups.oom_counter(tmp_path / "none", groups) is None


def test_limits_are_those_of_a_rank() -> None:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    assert host_probe.limits(123)["nofile"] == 123
    assert host_probe.limits(-1)["nofile"] in (soft, None)
    assert host_probe.limits(-1).keys() == {"nofile", "nproc", "memlock", "as"}


def test_an_adapter_of_infiniband_is_seen(tmp_path: Path) -> None:
    assert not host_probe.has_infiniband(tmp_path / "none")
    assert not host_probe.has_infiniband(tmp_path)
    (tmp_path / "mlx5_0").mkdir()
    assert host_probe.has_infiniband(tmp_path)


def test_a_folder_that_will_be_made_is_on_the_disk_above_it(tmp_path: Path) -> None:
    found = host_probe.disk(str(tmp_path / "not" / "yet"))

    assert found.free
    assert found.trouble == ""


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    assert "nothing can be written" in host_probe.disk(str(tmp_path)).trouble
    assert not host_probe.path_facts(str(tmp_path)).writable


def test_a_folder_that_root_cannot_write_either_is_told() -> None:
    assert "nothing can be written" in host_probe.disk("/proc/self/task").trouble or os.getuid() == 0
    assert not host_probe.path_facts("/no/such").exists


def test_a_probe_that_hangs_leaves_the_others_alone() -> None:
    never = threading.Event()

    def hangs() -> dict[str, object]:
        never.wait()
        return {}

    def fails() -> dict[str, object]:
        raise OSError("no such sensor")

    found = host_probe.answer({"disk": hangs, "gpus": fails, "memory": lambda: {"memory_free": 5}}, 0.2)
    never.set()

    assert found.memory_free == 5
    assert found.unanswered == {"disk": "no answer within 0.2 s", "gpus": "OSError: no such sensor"}


# --- GPUs --------------------------------------------------------------------------------------------


def test_gpus_with_their_processes_and_health(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(
        FakeGpu(
            "GPU-1",
            memory=(40 * GIB, 80 * GIB),
            compute=((os.getpid(), 30 * GIB), (1 << 22, GIB)),
            ecc=(0, 3),
            remapped=(0, 0, 1, 0),
            throttle=0x40,
        )
    )
    found = host_probe.gpus(nvml.open_session)
    (gpu,) = found["gpus"]

    assert (found["driver_cuda"], bool(found["driver"])) == ("13.0", True)
    assert (gpu.used, gpu.memory, gpu.uncorrected, gpu.pending) == (40 * GIB, 80 * GIB, 3, True)
    assert gpu.throttle == ("hw_thermal_slowdown",)
    own, foreign = gpu.holders
    assert own.name
    assert own.user
    assert (foreign.pid, foreign.name, foreign.user) == (1 << 22, "", "")


def test_without_a_driver_there_are_no_gpus() -> None:
    def none() -> nvml.NvmlSession:
        raise nvml.NoAnswer("NVML: Driver Not Loaded")

    assert host_probe.gpus(none) == {"gpu_trouble": "NVML: Driver Not Loaded"}


def test_xids_are_read_from_the_kernels_log(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text(
        "6,1,1,-;usb 1-1: new device\n"
        "3,2,2,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus.\n"
        "3,3,3,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=7, MMU Fault\n"
        "3,4,4,-;NVRM: Xid (PCI:0000:3b:00): 31, x\n"
    )

    assert host_probe.logged_xids(str(log)) == (31, 79)
    assert host_probe.logged_xids(str(tmp_path / "none")) is None


# --- the network -------------------------------------------------------------------------------------


@pytest.fixture
def port() -> Iterator[network.HeldPort]:
    held = network.hold_port()
    yield held
    with contextlib.suppress(OSError):
        held.sock.shutdown(socket.SHUT_RDWR)  # ends whoever accepts
    held.sock.close()


def dialled(port: int, nonce: str = "n") -> DialFacts:
    (found,) = host_probe.dial([PeerAddress(3, ("127.0.0.1",), port)], nonce, 1.0)
    return found


def test_an_agent_that_listens_is_reached(port: network.HeldPort) -> None:
    port.sock.listen()
    threading.Thread(target=host_probe.greet, args=(port.sock, "n", 3), daemon=True).start()

    assert dialled(port.number).error == ""
    assert dialled(port.number).interface == "lo"
    assert dialled(port.number, "another").error == "another program answers there"


def test_nobody_who_listens_is_a_refusal(port: network.HeldPort) -> None:
    assert dialled(port.number).error == "connection refused"


def listening_later(port: network.HeldPort) -> threading.Timer:
    """Has agent 3 listen a little after it was started."""

    def listen() -> None:
        port.sock.listen()
        host_probe.greet(port.sock, "n", 3)

    timer = threading.Timer(0.2, listen)
    timer.daemon = True
    return timer


def test_an_agent_that_listens_a_little_later_is_reached(port: network.HeldPort) -> None:
    listening_later(port).start()

    assert dialled(port.number).error == ""


def test_a_port_that_swallows_is_a_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert dialled(silent.getsockname()[1]).error == "connected, and then nothing was heard"


def test_peers_that_say_nothing_share_one_limit_with_the_one_that_answers(port: network.HeldPort) -> None:
    port.sock.listen()
    threading.Thread(target=host_probe.greet, args=(port.sock, "n", 9), daemon=True).start()
    with contextlib.ExitStack() as held:
        silent = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(4)]
        peers = [PeerAddress(n, ("127.0.0.1",), s.getsockname()[1]) for n, s in enumerate(silent)]
        began = time.monotonic()
        found = host_probe.dial([*peers, PeerAddress(9, ("127.0.0.1",), port.number)], "n", 1.0)

    assert time.monotonic() - began < 2.5  # one after the other, they take 4 s
    by_agent = {each.agent: each.error for each in found}
    assert by_agent == {9: "", **dict.fromkeys(range(4), "connected, and then nothing was heard")}


def test_a_refusal_is_tried_again_though_another_peer_says_nothing(port: network.HeldPort) -> None:
    """The first round lasts for as long as the silent one is waited for."""
    timer = listening_later(port)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        peers = [PeerAddress(3, ("127.0.0.1",), port.number)]
        peers.append(PeerAddress(4, ("127.0.0.1",), silent.getsockname()[1]))
        timer.start()
        found = host_probe.dial(peers, "n", 1.1)

    errors = {each.agent: each.error for each in found}
    assert errors == {3: "", 4: "connected, and then nothing was heard"}


def says(server: socket.socket, *pieces: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            connection.sendall(piece)


@pytest.mark.parametrize(
    ("pieces", "why"),
    [
        ((b"rankdeck ", b"n 3\n"), ""),
        ((b"SSH-2.0\n",), "another program answers there"),
        ((b"x" * 1000,), "another program answers there"),
        ((), "another program answers there"),
    ],
)
def test_what_a_peer_says_tells_who_it_is(pieces: tuple[bytes, ...], why: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=says, args=(server, *pieces), daemon=True).start()
        assert dialled(server.getsockname()[1]).error == why


def test_an_address_that_is_none_is_told() -> None:
    (found,) = host_probe.dial([PeerAddress(3, ("no.such.host.invalid",), 9)], "n", 1.0)

    assert found.error.startswith("no such address")


# --- interpreters ------------------------------------------------------------------------------------


def test_modules_are_found_and_not_imported(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("raise SystemExit('imported')\n")

    assert installed.can_find("json")
    assert installed.can_find("beside", [str(tmp_path)])
    assert not installed.can_find("beside")
    assert not installed.can_find("")


@pytest.mark.process
def test_another_interpreter_is_asked() -> None:
    root = str(Path(installed.__file__).parents[2])
    found = installed.ask(sys.executable, root, ["json", "no_such_module"], [], 30.0)

    assert found.trouble == ""
    assert found.python == ".".join(map(str, sys.version_info[:3]))
    assert found.modules == {"json": True, "no_such_module": False}


@pytest.mark.process
@pytest.mark.parametrize(
    ("python", "why"), [("/no/python", "cannot be started"), ("/bin/false", "cannot be asked")]
)
def test_an_interpreter_that_does_not_answer_is_told(python: str, why: str) -> None:
    questions = HostQuestions(python=python, limit_s=10.0)

    assert why in host_probe.interpreter(questions, "/").trouble
