"""Runs from a notebook, in a real kernel: the panel, the cell magic, the console beside it, interruption."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from launcher.runs.reader import read_state
from launcher.state.run_state import Phase
from tests import commands
from tests.commands import Gate, rankdeck, until
from tests.notebooks import Notebook, notebook

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark")]


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Notebook]:
    with notebook(tmp_path) as opened:
        yield opened


TRAIN = """
import os
from rankdeck import Distributor, report

def train(steps):
    for step in range(1, steps + 1):
        print("<b>step</b>", step)
        report(step=step, total_steps=steps, loss=1 / step)
    return {"rank": int(os.environ["RANK"]), "steps": steps}
"""


def test_a_run_is_one_output_that_is_updated_in_place(book: Notebook) -> None:
    assert book.run(TRAIN).ok
    ran = book.run("Distributor(2).run(train, 500)")

    assert "{'rank': 0, 'steps': 500}" == ran.value
    assert {} == ran.streams
    assert "train · succeeded · 2 ranks · local" in ran.text
    assert "step 500 of 500 · loss 0.002" in ran.text
    assert re.search(r"^1 +succeeded +\S+ +500", ran.text, re.MULTILINE)
    assert re.search(r"^r[01] \| <b>step</b> 500$", ran.text, re.MULTILINE)
    assert "&lt;b&gt;step&lt;/b&gt; 500" in ran.html
    assert "<script" not in ran.html
    assert "width:100.0%" in ran.html


def test_updates_are_few_however_much_is_printed(book: Notebook, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    book.run("from rankdeck import Distributor")
    request = book.begin(
        "def f():\n"
        "    for i in range(20_000):\n        print(i)\n"
        f"    open({str(gate.path) + '.0'!r}).read()\n"
        "Distributor(1).run(f)"
    )
    until(lambda: bool(commands.runs()) and (commands.last() / "logs/0/00000.out").exists())
    gate.open()
    ran = book.finish(request)
    updates = ran.updates[1:-1]  # the first one is there at once, and the last one is the end

    assert ran.ok
    assert "r0 | 19999" == ran.text.splitlines()[-1]
    assert len(ran.html) < 10_000
    assert all(later - earlier > 0.2 for earlier, later in pairwise(updates))


def test_lines_can_be_had_instead(book: Notebook) -> None:
    book.run(TRAIN)
    shown = book.run("Distributor(2, output='rank0').run(train, 2)")
    silent = book.run("Distributor(2, output='none').run(train, 2)")

    assert ({}, {"stdout": "r0 | <b>step</b> 1\nr0 | <b>step</b> 2\n"}) == (shown.displays, shown.streams)
    assert ({}, {}, True) == (silent.displays, silent.streams, silent.ok)


def test_a_failure_is_in_the_panel_and_raised(book: Notebook) -> None:
    book.run("from rankdeck import Distributor, RankFailed\ndef f():\n    raise ValueError('<no>')")
    ran = book.run("Distributor(2).run(f)")

    assert ("RankFailed", False) == (ran.error[0], ran.ok)
    assert "raised ValueError: <no>" in ran.text
    assert re.search(r"^[01] +failed \(exit 1\)", ran.text, re.MULTILINE)
    assert "ValueError: &lt;no&gt;" in ran.html


def test_the_console_shows_a_notebooks_run_and_stops_it(
    book: Notebook, targets: Path, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate", ranks=2)
    book.run("from rankdeck import Distributor")
    request = book.begin(f"Distributor(2).run({str(targets / 'waiting.py')!r}, 'gate', {str(gate.path)!r})")
    until(lambda: bool(commands.runs()) and read_state(commands.last()).phase is Phase.RUNNING)
    until(lambda: "r1 | ready" in rankdeck("logs", "last").stdout)
    (listed,) = json.loads(rankdeck("ps", "--json").stdout)
    stopped = rankdeck("stop", "last")
    ran = book.finish(request)

    assert ("running", 2, "waiting.py") == (listed["state"], listed["num_processes"], listed["name"])
    assert 0 == stopped.returncode
    assert "RunStopped" == ran.error[0]
    assert "waiting.py · stopped · 2 ranks" in ran.text
    assert 143 == rankdeck("attach", "last").returncode


def test_an_interrupted_cell_stops_its_run(book: Notebook, targets: Path) -> None:
    book.run("from rankdeck import Distributor")
    request = book.begin(f"Distributor(2, grace_s=1.0).run({str(targets / 'embedding.py')!r} + ':hold')")
    until(lambda: bool(commands.runs()) and "r1 | ready" in rankdeck("logs", "last").stdout)
    book.interrupt()
    ran = book.finish(request)

    assert "KeyboardInterrupt" == ran.error[0]
    assert "hold · stopped · 2 ranks" in ran.text
    assert Phase.STOPPED is read_state(commands.last()).phase
    assert "4" == book.run("2 + 2").value


# --- the magic

SETUP = """
%load_ext launcher.notebook
import concurrent.futures
import os
import threading
import numpy as np

factor = 3
lock = threading.Lock()

class Net:
    def __init__(self, size): self.size = size
    def forward(self): return int(self.size) * factor

def helper(x):
    return x * factor

net = Net(np.int64(5))
"""
CELL = """%%ranks -n 2 -o values --output none
import pickle
import rankdeck

factor = 10  # seen by the notebook's functions too, as it would be there
class Own:
    pass

assert type(pickle.loads(pickle.dumps(Own()))) is Own
assert concurrent.futures.ThreadPoolExecutor
rankdeck.report(step=1)
(int(os.environ["RANK"]), helper(2), net.forward(), float(np.float64(2)), __name__)
"""


@pytest.fixture
def filled(book: Notebook) -> Notebook:
    ran = book.run(SETUP)
    assert ran.ok, ran.error
    return book


def test_a_cell_runs_on_every_rank_with_the_notebooks_values(filled: Notebook) -> None:
    ran = filled.run(CELL)
    first, second = "(0, 20, 50, 2.0, '__main__')", "(1, 20, 50, 2.0, '__main__')"

    assert (first, "") == (ran.value, ran.error[2])
    assert f"([{first}, {second}], 3)" == filled.run("values, factor").value
    assert "In[2]" == json.loads(rankdeck("ps", "--json").stdout)[0]["name"]


def test_a_cell_is_shown_as_any_run(filled: Notebook) -> None:
    ran = filled.run("%%ranks -n 2 --name mine\nprint('hello')")

    assert "" == ran.value
    assert "mine · succeeded · 2 ranks · local" in ran.text
    assert "r1 | hello" in ran.text.splitlines()


def test_a_traceback_names_the_cells_own_lines_and_nothing_of_ours(filled: Notebook) -> None:
    ran = filled.run("%%ranks -n 2 --output none\ndef deep(x):\n    return 1 / x\n\nhelper(1)\ndeep(0)")
    name, message, shown = ran.error

    assert "RankFailed" == name
    assert message.startswith("rank ")
    assert [
        "Traceback (most recent call last):",
        '  File "In[2]", line 6, in <module>',
        "    deep(0)",
        '  File "In[2]", line 3, in deep',
        "    return 1 / x",
        "           ~~^~~",
        "ZeroDivisionError: division by zero",
    ] == shown.splitlines()[2:]
    assert "launcher" not in shown


def test_a_value_that_stays_in_the_notebook_is_named_where_it_is_missed(filled: Notebook) -> None:
    ran = filled.run("%%ranks -n 1 --output none\nlock.acquire()")
    of_notebook = filled.run("%%ranks -n 1 --output none\ndisplay(1)")

    assert "NameError: name 'lock' is not defined" in ran.error[2]
    assert "lock stays in the notebook: it cannot be pickled (TypeError: cannot pickle" in ran.error[2]
    assert "display stays in the notebook: it is the notebook's own" in of_notebook.error[2]


def test_a_value_that_cannot_leave_its_rank_is_shown(filled: Notebook) -> None:
    ran = filled.run("%%ranks -n 2 --output none\nthreading.Lock()")

    assert re.fullmatch(r"<unlocked _thread\.lock object at 0x[0-9a-f]+>", ran.value)


@pytest.mark.parametrize("name", ["rankdeck.notebook", "launcher.notebook"])
def test_it_is_loaded_by_either_name_and_can_be_unloaded(name: str, book: Notebook) -> None:
    assert book.run(f"%load_ext {name}").ok
    assert (
        "'1'" == book.run("%%ranks -n 2 --output none\nimport os\nos.environ['WORLD_SIZE'][:0] + '1'").value
    )
    assert book.run(f"%unload_ext {name}").ok
    assert "not found" in book.run("%%ranks -n 2\n1").streams["stderr"]


def test_what_is_wrong_is_said_in_one_sentence_and_starts_nothing(filled: Notebook) -> None:
    wrong = {
        "-n 2 --bogus": "unrecognized arguments: --bogus",
        "-n two": "the number of processes must be a whole number, or MIN:MAX, not 'two'",
        "-n 0": "the number of processes must be at least 1, not 0",
        "--output most": "argument --output: invalid choice: 'most'",
        "-o 3": "argument -o: '3' cannot be the name of a variable",
        "--conf a=b": "--conf is for Spark, and the mode is local (add --mode cluster or connect)",
        "--mode clusterr": "the mode must be one of local, cluster, connect, not 'clusterr'",
        "-n 2 'open": '"-n 2 \'open" cannot be split into words: No closing quotation',
        "--timeout": "argument --timeout: expected one argument",
    }
    said = {line: filled.run(f"%%ranks {line}\n1").error[2] for line in wrong}

    assert dict.fromkeys(wrong, True) == {
        line: said[line].startswith(f"SpecError: {text}") for line, text in wrong.items()
    }, said
    assert [] == commands.runs()


def test_what_is_no_python_is_refused(filled: Notebook) -> None:
    shell = filled.run("%%ranks -n 2\n!ls").error[2]
    wrong = filled.run("%%ranks -n 2\n\nx = = 3").error[2]
    empty = filled.run("%%ranks -n 2\n# nothing").error[2]

    assert "SpecError: ranks run plain Python: lines with % or ! only work in the notebook" == shell
    assert 'SpecError: the cell is no Python\n  File "In[3]", line 3\n    x = = 3\n' in wrong
    assert "SpecError: the cell has no code for the ranks to run" == empty
    assert [] == commands.runs()


def test_its_help_has_every_launch_option(filled: Notebook) -> None:
    from launcher.spec.job import LAUNCH_OPTIONS

    text = filled.run("print(get_ipython().find_cell_magic('ranks').__doc__)").streams["stdout"]

    flags = [each.flag_name for each in LAUNCH_OPTIONS if each.flag and each.path[0] != "target"]
    assert [] == [flag for flag in flags if flag not in text]
    assert "--param" not in text
