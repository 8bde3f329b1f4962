"""What torch's flight recorder has of a rank's last collectives, read from a real one."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.agent.flight_record import collectives_in, files_of, last_collectives

DUMPING = """
import os, torch, torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", TORCH_FR_BUFFER_SIZE="100")
dist.init_process_group("gloo", rank=0, world_size=1)
dist.all_reduce(torch.ones(3)); dist.broadcast(torch.ones(2, 5), src=0)
dist.all_reduce(torch.ones(4), group=dist.new_group([0]))
dump = torch._C._distributed_c10d._dump_fr_trace(True, True, False)
open("{path}", "wb").write(dump)
"""
PROGRAM = """
import os, json, torch, torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", TORCH_FR_BUFFER_SIZE="{size}")
dist.init_process_group("gloo", rank=0, world_size=1)
dist.all_reduce(torch.ones(3)); dist.broadcast(torch.ones(2, 5), src=0)
from launcher.agent.flight_record import last_collectives
print(json.dumps(last_collectives()))
"""


def recorded(size: int) -> str:
    root = Path(__file__).parents[3]
    program = [sys.executable, "-c", PROGRAM.format(size=size)]
    return subprocess.run(program, capture_output=True, text=True, check=True, cwd=root).stdout.strip()


def test_the_last_call_in_each_group() -> None:
    call = '{"group": "default_pg", "number": 2, "operation": "broadcast", "sizes": "[[2, 5]]"}'
    assert recorded(100) == f"[{call}]"


def test_a_recorder_that_is_off_and_a_process_without_groups_have_none() -> None:
    assert recorded(0) == "[]"
    assert last_collectives() == []


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What NCCL's watchdog writes, by the recorder of gloo, which writes the same."""
    path = tmp_path_factory.mktemp("dumps") / "trace_0"
    subprocess.run([sys.executable, "-c", DUMPING.format(path=path)], check=True)
    return path


def test_a_file_of_the_watchdogs_has_the_last_call_in_each_group_by_name(dump: Path) -> None:
    of_all, of_one = sorted(collectives_in(str(dump), 0.0), key=lambda call: call["group"], reverse=True)
    assert {"group": "default_pg", "number": 2, "operation": "broadcast", "sizes": "[[2, 5]]"} == of_all
    assert ("1", 1, "[[4]]") == (of_one["group"], of_one["number"], of_one["sizes"])


def test_an_older_file_is_of_another_rank(dump: Path) -> None:
    assert collectives_in(str(dump), dump.stat().st_mtime - 600.0)
    assert collectives_in(str(dump), dump.stat().st_mtime + 1.0) == []


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("evil",)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no pickle",
        pickle.dumps([1]),
        pickle.dumps({"entries": [{}]}),
        pickle.dumps({"entries": Evil()}),
    ],
)
def test_what_is_no_such_file_tells_nothing_and_runs_nothing(
    data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace_0").write_bytes(data)
    assert collectives_in("trace_0", 0.0) == []
    assert collectives_in("missing", 0.0) == []
    assert ["trace_0"] == os.listdir()


def test_half_a_file_tells_nothing(dump: Path, tmp_path: Path) -> None:
    half = tmp_path / "half"
    half.write_bytes(dump.read_bytes()[:200])
    assert collectives_in(str(half), 0.0) == []


def test_a_pipe_of_that_name_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "trace_0")
    assert collectives_in(str(tmp_path / "trace_0"), 0.0) == []


def test_values_without_end_are_left_out(tmp_path: Path) -> None:
    endless: list[object] = [1]
    for _ in range(60):
        endless = [endless, endless]
    entry = {
        "process_group": ("0", endless), "collective_seq_id": 3, "profiling_name": "nccl:all_reduce",
        "input_sizes": endless, "record_id": 1, "time_created_ns": 9e18,
    }  # fmt: skip
    (tmp_path / "trace_0").write_bytes(pickle.dumps({"entries": [entry]}))
    (call,) = collectives_in(str(tmp_path / "trace_0"), 0.0)
    assert ("0", "", 3) == (call["group"], call["sizes"], call["number"])


@pytest.mark.parametrize("name", ["TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"])
def test_a_place_that_the_user_chose_is_the_only_one(name: str) -> None:
    assert ["/mine/t_3"] == list(files_of({name: "/mine/t_", "HOME": "/home/ada"}, 3))


def test_else_it_is_where_torch_writes() -> None:
    folder = "/home/ada/.cache/torch"
    files = [f"{folder}/comm_lib_trace_rank_3", f"{folder}/nccl_trace_rank_3"]
    assert files == list(files_of({"HOME": "/home/ada"}, 3))
    assert files == list(files_of({"HOME": "/x", "XDG_CACHE_HOME": "/home/ada/.cache"}, 3))
