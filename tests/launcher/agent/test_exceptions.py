"""What is recorded of an exception: its text, the source around its frames, and the last one's variables."""

from __future__ import annotations

import json
import linecache
import multiprocessing
import os
import sys
import time
import types
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

from launcher.agent import exceptions, failing_frames
from launcher.agent.program import Naming
from launcher.agent.rank_pipe import PACKET
from launcher.state import events as ev

Described = dict[str, Any]


HERE = Naming()


def describe(failing: Callable[[], object], *, naming: Naming = HERE, values: bool = False) -> Described:
    """What is recorded of the exception that a call raises, as it is written and read."""
    try:
        failing()
    except Exception as error:  # noqa: BLE001  the helper is for any
        tb = error.__traceback__
        assert tb is not None
        fields = exceptions.description(error, tb.tb_next, naming, values=values)
    else:
        raise AssertionError("it has not failed")
    sent = json.dumps({"event": "rank_raised", **fields})
    assert len(sent) < 2 * PACKET
    fact = ev.from_wire(json.loads(sent), "rank", {"rank": 0})
    assert isinstance(fact, ev.RankRaised)
    return ev.to_wire(fact)


def run(path: Path, source: str) -> Callable[[], None]:
    """A script, as a rank runs it, that is older than this process."""
    path.write_text(source)
    os.utime(path, (1e9, 1e9))
    code = compile(source, str(path), "exec")
    return partial(exec, code, {"__name__": "__main__"})


def variables_of(failing: Callable[[], object], *, values: bool = False) -> dict[str, Described]:
    return {each["name"]: each for each in describe(failing, values=values)["variables"]}


def test_a_traceback_without_end_is_bounded() -> None:
    error = ValueError("x" * 1_000_000)

    assert len(exceptions.text_of(error, None)) < 50_000
    assert "characters left out" in exceptions.text_of(error, None)


def test_text_is_cut_to_its_size_as_json() -> None:
    assert "short" == exceptions.cut("short", 100)
    for text in ("x" * 100_000, "é" * 100_000, "\0" * 100_000, "𝄞" * 50_000, "a" + "é" * 9_000):
        assert len(json.dumps(exceptions.cut(text, 4096))) <= 4096
        assert exceptions.cut(text, 4096).startswith(text[:100])
        assert exceptions.cut(text, 4096).endswith(text[-100:])


def test_frames_of_the_standard_library_are_left_out_of_the_short_list() -> None:
    told = describe(lambda: multiprocessing.get_context("no such way"))

    assert [os.path.abspath(__file__)] == [frame[0] for frame in told["frames"]]


# --- source ------------------------------------------------------------------------------------------

SCRIPT = """\
import json


def load(text):
    # what the loader gives
    return json.loads(text)


load("{")
"""


def test_the_users_frames_have_the_lines_around_theirs(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    told = describe(run(script, SCRIPT))

    inner, outer = told["excerpts"]
    assert (str(script), 6, "load", 4) == (inner["file"], inner["line"], inner["function"], inner["first"])
    assert SCRIPT.split("\n")[3:8] == inner["lines"]
    assert (9, "<module>", ["", "", 'load("{")']) == (outer["line"], outer["function"], outer["lines"])
    assert not inner["changed"]
    assert [(e["file"], e["line"], e["function"]) for e in (outer, inner)] == [*map(tuple, told["frames"])]


def test_files_of_a_copied_target_have_the_callers_names(tmp_path: Path) -> None:
    told = describe(run(tmp_path / "train.py", SCRIPT), naming=Naming(str(tmp_path), "/home/ada"))

    assert {"/home/ada/train.py"} == {each["file"] for each in told["excerpts"]}
    assert str(tmp_path) not in json.dumps(told)


def test_a_source_that_was_written_since_the_start_says_so(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    failing = run(script, SCRIPT)
    written = time.time() + 60
    os.utime(script, (written, written))

    assert [True, True] == [each["changed"] for each in describe(failing)["excerpts"]]


def test_a_source_that_is_shorter_now_has_no_excerpt(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    failing = run(script, SCRIPT)
    script.write_text("import json\n")

    assert [] == describe(failing)["excerpts"]


@pytest.mark.parametrize("data", [None, b"\xff\xfe\0\1" * 100, b"#\n" * 5 + b"x = '\0'\n" * 9])
def test_a_source_that_cannot_be_read_has_no_excerpt(tmp_path: Path, data: bytes | None) -> None:
    script = tmp_path / "train.py"
    failing = run(script, SCRIPT)
    script.unlink() if data is None else script.write_bytes(data)

    told = describe(failing)
    assert ([], 2) == (told["excerpts"], len(told["frames"]))


def test_generated_code_has_no_excerpt() -> None:
    told = describe(lambda: exec(compile("1 / 0", "<string>", "exec")))

    assert [__file__] == [each["file"] for each in told["excerpts"]]


def test_a_cell_has_one_from_where_python_keeps_its_source() -> None:
    source = "def cell():\n    return 1 / 0\n"
    linecache.cache["In[7]"] = len(source), None, source.splitlines(True), "In[7]"
    names: dict[str, Any] = {}
    exec(compile(source, "In[7]", "exec"), names)

    told = describe(names["cell"])["excerpts"][0]
    assert ("In[7]", 2, source.splitlines(), False) == (
        told["file"], told["line"], told["lines"], told["changed"],
    )  # fmt: skip


def test_a_long_line_is_cut(tmp_path: Path) -> None:
    failing = run(tmp_path / "train.py", f"x = '{'é' * (16 << 10)}'; 1 / 0\n")

    line = describe(failing)["excerpts"][0]["lines"][0]
    assert ("x = 'éé", "é…") == (line[:7], line[-2:])
    assert len(line) < 300


def test_a_recursion_without_end_is_bounded(tmp_path: Path) -> None:
    """Of functions that call each other Python prints every frame."""
    source = (
        "def f(n):\n    g(n)\n\ndef g(n):\n    if n < 1: raise ValueError('deep')\n    f(n - 1)\n\nf(5000)\n"
    )
    failing = run(tmp_path / "train.py", source)
    old = sys.getrecursionlimit()
    sys.setrecursionlimit(11_000)
    try:
        told = describe(failing)
    finally:
        sys.setrecursionlimit(old)

    assert (10, [5, 2, 6, 8]) == (len(told["frames"]), [each["line"] for each in told["excerpts"]])
    assert "characters left out" in told["traceback"]


def test_a_syntax_error_has_the_lines_around_it(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import os\n\ndef main(:\n    pass\n")

    told = describe(
        lambda: compile((tmp_path / "broken.py").read_text(), str(tmp_path / "broken.py"), "exec")
    )
    assert (3, "") == next((e["line"], e["function"]) for e in told["excerpts"] if "broken" in e["file"])


def chained() -> None:
    try:
        os.environ["MISSING_FROM_EVERYWHERE"]
    except KeyError as error:
        raise RuntimeError("no such key") from error


def grouped() -> NoReturn:
    def member(number: int) -> Exception:
        try:
            raise ValueError(number)
        except ValueError as error:
            return error

    raise ExceptionGroup("both", [member(1), member(2)])


@pytest.mark.parametrize(
    ("failing", "inner"),
    [(chained, 'os.environ["MISSING_FROM_EVERYWHERE"]'), (grouped, "raise ValueError(number)")],
)
def test_causes_and_members_of_groups_have_excerpts_too(failing: Callable[[], object], inner: str) -> None:
    told = describe(failing)

    shown = [line.strip() for each in told["excerpts"] for line in each["lines"]]
    assert inner in shown
    assert inner in told["traceback"]


def test_a_chain_without_end_is_bounded() -> None:
    def failing() -> NoReturn:
        first = error = ValueError(0)
        for number in range(1000):
            error.__context__ = ValueError(number)
            error = error.__context__
        error.__context__ = first
        raise first

    assert 1 == len(describe(failing)["excerpts"])


def test_frames_that_a_loaders_message_quotes_have_excerpts(tmp_path: Path) -> None:
    data = tmp_path / "data.py"
    data.write_text(SCRIPT)
    quoted = (
        f'Traceback (most recent call last):\n  File "{data}", line 6, in load\n    return 1\nKeyError: 3\n'
    )

    def failing() -> NoReturn:
        raise KeyError(f"Caught KeyError in DataLoader worker process 0.\nOriginal {quoted}")

    assert [__file__, str(data)] == [each["file"] for each in describe(failing)["excerpts"]]


class Message(str):
    __slots__ = ()

    def __getitem__(self, _: object) -> NoReturn:
        raise AssertionError


def test_a_message_may_be_of_a_class_of_its_own(tmp_path: Path) -> None:
    data = tmp_path / "data.py"
    data.write_text(SCRIPT)

    def failing() -> NoReturn:
        raise KeyError(Message(f'  File "{data}", line 1, in load'))

    assert [__file__, str(data)] == [each["file"] for each in describe(failing)["excerpts"]]


def test_frames_of_the_launcher_are_not_the_users() -> None:
    def failing() -> None:
        numbers = [1]
        exceptions.cut(numbers, 3)  # type: ignore[arg-type]
        exceptions.cut("longer", numbers)  # type: ignore[arg-type]

    told = describe(failing)
    assert {__file__} == {frame[0] for frame in told["frames"]}
    assert ["numbers"] == [each["name"] for each in told["variables"]]


def test_a_quoted_name_that_is_no_file_is_not_opened(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    def failing() -> NoReturn:
        raise ValueError(f'Traceback (most recent call last):\n  File "{fifo}", line 1, in load\n')

    assert [__file__] == [each["file"] for each in describe(failing)["excerpts"]]


def test_a_secret_that_is_written_in_the_source_is_masked(tmp_path: Path) -> None:
    failing = run(tmp_path / "train.py", "api_key = 'hunter2'\nlogin = dict(token=api_key)\n1 / 0\n")

    assert ["api_key = '***'", "login = dict(token=api_key)", "1 / 0"] == describe(failing)["excerpts"][0][
        "lines"
    ]


def test_everything_of_the_largest_failure_fits_one_packet(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(15):
        folder = folder / ("ü" * 120)
    folder.mkdir(parents=True)
    body = "".join(f"    {'é' * 60}{n} = '{'é' * 300}'\n" for n in range(60))
    calls = "".join(f"def f{n}():\n    f{n + 1}()  # {'é' * 500}\n" for n in range(20))
    failing = run(folder / "train.py", f"{calls}def f20():\n{body}    raise ValueError('é' * 90_000)\nf0()\n")

    told = describe(failing, values=True)
    assert told["traceback"].rstrip().endswith("é")
    assert told["excerpts"]
    assert told["variables"]


def test_what_cannot_be_read_does_not_hide_the_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "launcher.agent.failing_frames", None)
    monkeypatch.delattr("launcher.agent.failing_frames")

    told = describe(chained)
    assert ("RuntimeError", [], []) == (told["kind"], told["excerpts"], told["variables"])


def test_a_recorder_of_torchs_that_has_changed_costs_only_what_it_would_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(**_: object) -> str:
        raise TypeError

    def failing() -> NoReturn:
        size = 3
        raise ValueError(size)

    changed = types.SimpleNamespace(_dump_fr_trace_json=broken)
    monkeypatch.setitem(sys.modules, "torch._C._distributed_c10d", changed)

    told = describe(failing, values=True)
    assert told["excerpts"]
    assert told["variables"]
    assert not told["collectives"]


# --- variables ---------------------------------------------------------------------------------------


class Loud(type):
    """Its classes have no name, no attribute and no value without running code of theirs."""

    def __getattribute__(cls, name: str) -> NoReturn:
        raise AssertionError(name)

    def __eq__(cls, other: object) -> NoReturn:
        raise AssertionError(other)

    __hash__ = type.__hash__


class Hostile(metaclass=Loud):
    def _no(self, *_: object) -> NoReturn:
        os._exit(3)

    __repr__ = __str__ = __len__ = __bool__ = __eq__ = __iter__ = __format__ = __getattribute__ = _no
    __hash__ = None  # type: ignore[assignment]


class Listed(list[int]):
    def __len__(self) -> int:
        os._exit(3)

    __repr__ = __iter__ = __len__  # type: ignore[assignment]


def test_no_code_of_a_value_is_run() -> None:
    def failing() -> None:
        hostile, listed = Hostile(), Listed([1, 2])
        nested = {"a": hostile, 2: [listed]}  # noqa: F841
        raise ValueError

    told = variables_of(failing, values=True)
    assert f"{__name__}.Hostile" == told["hostile"]["type"]
    assert ("2 items", None) == (told["listed"]["about"], told["listed"].get("text"))
    assert f"{{'a': <{__name__}.Hostile>, 2: <list>}}" == told["nested"]["text"]


def test_types_and_lengths_are_recorded_and_values_only_when_asked_for() -> None:
    def failing() -> None:
        number, text, nothing, many = 0.5, "hello", None, list(range(1000))  # noqa: F841
        ordered, huge = OrderedDict(a=1), 10**5000  # noqa: F841
        raise ValueError

    told, with_values = variables_of(failing), variables_of(failing, values=True)

    assert not any("text" in each for each in told.values())
    assert {"number": "float", "text": "str", "nothing": "NoneType", "many": "list", "huge": "int",
            "ordered": "collections.OrderedDict"} == {n: e["type"] for n, e in told.items()}  # fmt: skip
    assert ["5 characters", "1,000 items", "1 item"] == [
        told[n]["about"] for n in ("text", "many", "ordered")
    ]
    assert ["0.5", "'hello'", "None", "[0, 1, 2, 3, 4, 5, …]"] == [
        with_values[name]["text"] for name in ("number", "text", "nothing", "many")
    ]
    assert not {"text"} & {*with_values["ordered"], *with_values["huge"]}


def test_tensors_and_arrays_have_a_shape_and_a_type_and_no_values() -> None:
    import numpy as np
    import torch

    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *_: Any, **__: Any) -> NoReturn:
            raise AssertionError

    def failing() -> None:
        batch, weight = torch.zeros(8, 3, dtype=torch.bfloat16), torch.nn.Parameter(torch.ones(2))  # noqa: F841
        rows, far = np.zeros((4, 5), dtype="int16"), torch.empty(7, device="meta")  # noqa: F841
        own = torch.zeros(2).as_subclass(Own)  # noqa: F841
        raise ValueError

    told = variables_of(failing, values=True)
    assert ("torch.Tensor", "(8, 3) bfloat16") == (told["batch"]["type"], told["batch"]["about"])
    assert "(2) float32" == told["weight"]["about"]
    assert ("numpy.ndarray", "(4, 5) int16") == (told["rows"]["type"], told["rows"]["about"])
    assert "(7) float32 on meta" == told["far"]["about"]
    assert "" == told["own"]["about"]
    assert not any("text" in each for each in told.values())


def test_values_of_secret_names_are_masked() -> None:
    def failing() -> None:
        api_key, login = "hunter2", {"password": "hunter3", "user": "ada"}  # noqa: F841
        header = "Bearer abcdefghijk"  # noqa: F841
        raise ValueError

    told = variables_of(failing, values=True)
    assert ["***", "{'password': '***', 'user': 'ada'}", "'Bearer ***'"] == [
        told[name]["text"] for name in ("api_key", "login", "header")
    ]


def test_a_scripts_variables_are_its_own_and_those_of_the_failing_line_go_first(tmp_path: Path) -> None:
    source = "import os\nclass A: ...\ndef f(): ...\nlr = 1\nmodel = A()\n_hidden = 2\nlr / (model is None)\n"

    told = variables_of(run(tmp_path / "train.py", source))
    assert ["lr", "model", "_hidden"] == list(told)
    assert "__main__.A" == told["model"]["type"]


def test_they_are_bounded_in_number() -> None:
    names: dict[str, Any] = {}
    exec(
        "def failing():\n"
        + "".join(f"    v{n} = {n}\n" for n in range(500))
        + "    raise ValueError(v499)\n",
        names,
    )

    told = list(variables_of(names["failing"]))
    assert failing_frames.MOST_VARIABLES == len(told)


def test_they_are_of_the_users_innermost_frame() -> None:
    def failing() -> None:
        text = "{"
        json.loads(text)

    assert ["text"] == list(variables_of(failing))


def test_a_frame_that_still_runs_has_none() -> None:
    """To ask for them would keep what it deletes, such as a batch on a GPU, until it has ended."""
    told: list[Described] = []

    def failing() -> None:
        batch = [1]  # noqa: F841
        try:
            raise ValueError
        except ValueError as error:
            told.append(exceptions.description(error, error.__traceback__, Naming()))

    failing()
    assert [] == told[0]["variables"]
    assert told[0]["excerpts"]


class Space(dict[str, Any]):
    def items(self) -> NoReturn:
        raise AssertionError


def test_a_namespace_of_the_users_own_is_not_asked() -> None:
    assert {} == variables_of(lambda: exec(compile("a = 1\n1 / 0", "<cell>", "exec"), {}, Space()))


def test_a_module_that_is_only_named_torch_is_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("torch")
    module.Tensor = Hostile  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", module)

    def failing() -> None:
        hostile = Hostile()  # noqa: F841
        raise ValueError

    assert "" == variables_of(failing)["hostile"]["about"]
