"""N trainings never pass for one: twenty scripts whose ranks meet, twenty whose do not, twenty plain ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from launcher.distributor import Distributor
from launcher.errors import NoGroup, SpecError
from launcher.state.run_state import RunState
from tests.commands import rankdeck
from tests.targets import lookalikes

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark")]

JOINED = [
    "import torch.distributed as dist\ndist.init_process_group('gloo')",
    "import torch\ntorch.distributed.init_process_group()",
    "from torch import distributed\ndistributed.init_process_group()",
    "from torch.distributed import *\ninit_process_group()\ndestroy_process_group()",
    "from torch.distributed.distributed_c10d import init_process_group as begin\nbegin()",
    "def main():\n    import torch.distributed as d\n    d.init_process_group()\nmain()",
    "import torch.distributed as d, os\nif 'RANK' in os.environ:\n    d.init_process_group()",
    "from torch.distributed.device_mesh import init_device_mesh\ninit_device_mesh('cpu', (2,))",
    "import torch.distributed as d\nd.init_process_group()\nd.init_process_group(world_size=1)",
    "import torch.distributed as d, sys\nd.init_process_group()\nsys.exit(0)",
    "import torch, os\nif os.environ['RANK'] == '1': torch.distributed.init_process_group()",  # one is enough
    "import lightning as L\nL.Trainer().fit()",
    "import lightning as L\nL.Trainer(devices='auto').fit()",
    "import lightning as L, os\nL.Trainer(devices=int(os.environ['LOCAL_WORLD_SIZE'])).fit()",
    "import lightning as L\nL.Trainer(devices='auto', num_nodes=2).fit()",
    "import deepspeed\ndeepspeed.initialize()",
    "from accelerate import Accelerator\nAccelerator()",
    "from transformers import Trainer, TrainingArguments\nTrainer(args=TrainingArguments()).train()",
    "import colossalai\ncolossalai.launch_from_torch()",
    "import horovod.torch as hvd\nhvd.init()\nprint(hvd.size())",
]
NEVER = [
    "import torch.distributed as dist\nprint(dist.is_initialized())",
    "import torch\nif torch.distributed.is_initialized(): print('never')",
    "from torch.nn.parallel import DistributedDataParallel",
    "import torch\ntorch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))",
    "import torch\ntorch.optim.SGD()",
    "import torch\ndef train():\n    return torch.optim.AdamW()\ntrain()",
    "from torch.optim import Adam\nfor _ in range(3): Adam().step()",
    "import torch, sys\ntorch.optim.SGD()\nsys.exit(0)",
    "import torch.distributed as d, os\nd.init_process_group(world_size=1, rank=0)",
    "import model",
    "import lightning as L\nL.Trainer(devices=1).fit()",
    "import lightning as L\nprint(L.Trainer)",
    "def main():\n    import lightning\nmain()",
    "import deepspeed",
    "from accelerate import Accelerator",
    "from transformers import Trainer\nTrainer().train()",
    "import colossalai",
    "import horovod.torch as hvd",
    "import tensorflow as tf\ntf.Strategy()",
    "import importlib\nimportlib.import_module('tensor' + 'flow')",
]
PLAIN = [
    "print('hello')",
    "",
    "import os\nprint(os.environ['RANK'])",
    "import torch\nprint(torch.ones(2))",
    "import torch\nprint(torch.nn.Linear(1, 1))",
    "import torch  # no torch.distributed here",
    '"""Not one of torch.distributed."""\nimport torch',
    "import torch\ntext = 'torch.distributed.init_process_group()'",
    "from torch import optim\nclass Mine(optim.Optimizer):\n    def step(self): ...",
    "from transformers import pipeline\nprint(pipeline('t')('x'))",
    "import accelerating",
    "import helper",
    "import json, subprocess, sys\nsubprocess.run([sys.executable, '-c', ''], check=True)",
    "import multiprocessing as m\np = m.get_context('fork').Process(target=print)\np.start()\np.join()",
    "import os\nif os.fork() == 0: os._exit(0)\nos.wait()",
    "import threading\nt = threading.Thread(target=print)\nt.start()\nt.join()",
    "import launcher\nlauncher.report(step=1, loss=0.5)\nlauncher.publish(1)",
    "import os\nos._exit(0)",
    "class horovod: ...\nclass tensorflow: ...",
    "print('import lightning')\nprint('from deepspeed import x')",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of scripts, and look-alikes of frameworks in another: they are no modules of the user's."""
    made = tmp_path_factory.mktemp("separate")
    lookalikes.write(made / "site")
    (made / "model.py").write_text("from layers import part\n")
    (made / "layers").mkdir()
    (made / "layers" / "__init__.py").touch()
    (made / "layers" / "part.py").write_text("if False:\n    import deepspeed\n")
    (made / "accelerating.py").touch()
    (made / "helper.py").write_text("import json\n")
    return made


def run_all(folder: Path, kind: str, sources: list[str]) -> Iterator[tuple[str, RunState]]:
    """Run every script on two ranks, some at a time."""

    def run(number: int, source: str) -> RunState:
        script = folder / f"{kind}{number}.py"
        script.write_text(source + "\n")
        env = {"PYTHONPATH": str(folder / "site")}
        return Distributor(2, workdir=folder, env=env).start(str(script)).wait(60)

    with ThreadPoolExecutor(4) as pool:
        yield from zip(sources, pool.map(run, range(len(sources)), sources), strict=True)


@pytest.mark.parametrize(
    ("kind", "sources", "warned"),
    [("joined", JOINED, False), ("never", NEVER, True), ("plain", PLAIN, False)],
)
def test_twenty_scripts_of_a_kind(folder: Path, kind: str, sources: list[str], warned: bool) -> None:
    assert 20 == len(sources)
    ends = dict(run_all(folder, kind, sources))

    assert {0} == {state.exit_code for state in ends.values()}, [s.why for s in ends.values() if s.exit_code]
    wrong = {
        source: state.why for source, state in ends.items() if (state.separate is not None) is not warned
    }
    assert {} == wrong
    assert all(state.why.startswith("2 separate trainings") is warned for state in ends.values())


FUNCTIONS = """
import torch, torch.distributed
def plain(): return torch.ones(2)
def trains(): torch.optim.SGD()
def joins(): torch.distributed.init_process_group(); torch.optim.SGD()
def loads():
    import lightning
"""


@pytest.mark.parametrize(
    ("name", "warned"), [("plain", False), ("joins", False), ("trains", True), ("loads", True)]
)
def test_of_a_function_only_what_it_does_counts(folder: Path, name: str, warned: bool) -> None:
    (folder / "functions.py").write_text(FUNCTIONS)
    done = rankdeck(
        "run", "functions.py:" + name, "-n", "2", cwd=folder, env={"PYTHONPATH": str(folder / "site")}
    )

    assert 0 == done.returncode, done.stderr
    assert warned is ("2 separate trainings" in done.stderr)


@pytest.fixture
def forgot(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(folder / "site"))
    script = folder / "forgot.py"
    script.write_text("import torch.distributed\n")
    return script


WARNING = (
    "2 separate trainings with torch: no rank joined a group with others (call torch.distributed.init_proc"
)


def test_a_person_is_warned_wherever_the_end_is_told(forgot: Path) -> None:
    done = rankdeck("run", forgot, "-n", "2")

    assert 0 == done.returncode
    assert f": {WARNING}" in done.stderr
    assert WARNING in rankdeck("show", "last").stdout
    assert "2 separate trainings with torch" in rankdeck("ps").stdout
    assert ["torch"] == json.loads(rankdeck("show", "last", "--json").stdout)["separate"]["frameworks"]


def test_a_caller_in_python_is_warned_where_the_values_are_asked_for(forgot: Path) -> None:
    with pytest.warns(UserWarning, match="2 separate trainings with torch") as caught:
        Distributor(2, output="none").run(str(forgot))
    job = Distributor(2).start(str(forgot))
    with pytest.warns(UserWarning, match="2 separate trainings with torch") as again:
        job.results()

    assert [__file__, __file__] == [warning.filename for warning in (*caught, *again)]


def test_a_required_group_fails_the_run(forgot: Path) -> None:
    done = rankdeck("run", forgot, "-n", "2", "--require-group")

    assert 76 == done.returncode
    assert "failed after" in done.stderr
    assert WARNING in done.stderr
    with pytest.raises(NoGroup, match="2 separate trainings"):
        Distributor(2, require_group=True).run(str(forgot))


def test_a_group_is_required_of_plain_ranks_too(tmp_path: Path) -> None:
    script = tmp_path / "plain.py"
    script.touch()

    with pytest.raises(NoGroup, match=r"^2 separate trainings: no rank joined"):
        Distributor(2, require_group=True).run(str(script))


def test_one_rank_meets_nobody_and_that_is_well(forgot: Path) -> None:
    assert Distributor(1, require_group=True).start(str(forgot)).wait(60).separate is None


def test_ranks_that_are_meant_to_be_separate_are_left_in_peace(forgot: Path, tmp_path: Path) -> None:
    script = tmp_path / "trial.py"
    script.write_text(
        "import os, torch.distributed, launcher\n"
        "names = ('RANK', 'WORLD', 'MASTER')\n"
        "launcher.publish({k: v for k, v in os.environ.items() if any(name in k for name in names)})\n"
    )
    job = Distributor(2, framework="none").start(str(script))

    assert job.wait(60).separate is None
    seen = job.results()
    assert ["0", "1"] == [one["RANKDECK_RANK"] for one in seen]
    assert not {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"} & {name for one in seen for name in one}


def test_a_failing_run_is_not_told_that_its_ranks_were_separate(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(folder / "site"))
    script = folder / "fails.py"
    script.write_text("import torch.distributed\nraise ValueError\n")
    state = Distributor(2, require_group=True).start(str(script)).wait(60)

    assert (None, 1) == (state.separate, state.exit_code)


def test_a_group_cannot_be_required_of_ranks_that_have_none(forgot: Path) -> None:
    with pytest.raises(SpecError, match="--require-group demands a group"):
        Distributor(2, framework="none", require_group=True)
    assert 2 == rankdeck("run", forgot, "-n", "2", "--framework", "none", "--require-group").returncode


def test_an_unknown_framework_is_refused_by_the_names_of_the_known(home: Path, forgot: Path) -> None:
    done = rankdeck("run", forgot, "-n", "2", "--framework", "torhc")

    assert 2 == done.returncode
    assert "there is no framework 'torhc' (there are " in done.stderr
    assert not (home / "runs").exists()
    with pytest.raises(SpecError, match="there is no framework 'torhc'"):
        Distributor(2, framework="torhc")


def test_what_a_framework_is_not_served_with_is_told_before_the_start(folder: Path) -> None:
    script = folder / "hvd.py"
    script.write_text("import horovod.torch as hvd\n@hvd.elastic.run\ndef train(state): ...\n")
    planned = rankdeck("run", script, "-n", "2", "--dry-run")

    assert "uses     horovod (found in the source)" in planned.stdout.splitlines()
    assert "Horovod's elastic mode is not served" in planned.stderr
    assert "elastic" not in rankdeck("run", script, "-n", "1", "--dry-run").stderr
