from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from launcher.errors import SpecError
from launcher.spec.files.file_search import find_sources
from launcher.spec.job import Target, TargetKind
from launcher.spec.source import described, find_module
from launcher.spec.target import resolve

TRAIN = '''
import functools
from os.path import join

def train(epochs: int = 3, lr: float = 0.1, *, name: str = "run"):
    """Train it."""

def need(data, rate: float): ...
def only(a, /, b=1): ...
def rest(a: int, *more: float, **others: bool): ...

class Model:
    def fit(self): ...

async def later(): ...

main = functools.partial(train)

if main:
    def chosen(): ...

for loop in ():
    with open(loop) as handle: ...

@decorated
def wrapped(a: int, b: int): ...

def _private(a: int): ...

changed = 1
def changed(a: int): ...
'''


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def ask(work: Path, text: str, *args: str, params: Mapping[str, str] | None = None) -> Target:
    return resolve(text, params=params or {}, args=args, workdir=work)


def refusal(work: Path, text: str, *args: str, **params: str) -> str:
    with pytest.raises(SpecError) as caught:
        resolve(text, params=params, args=args, workdir=work)
    return str(caught.value)


def put(work: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


# --- scripts


def test_a_script_is_an_absolute_path_and_its_arguments(work: Path) -> None:
    expected = Target(TargetKind.SCRIPT, str(work / "train.py"), args=("--lr", "1"))
    assert ask(work, "train.py", "--lr", "1") == expected


def test_a_path_may_be_absolute_or_climb(work: Path) -> None:
    (work / "sub").mkdir()
    found = [ask(work / "sub", text).source for text in (str(work / "train.py"), "../train.py")]
    assert found == [str(work / "train.py")] * 2


def test_a_home_folder_is_expanded(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(work))
    assert ask(Path("/"), "~/train.py").source == str(work / "train.py")


def test_a_script_whose_name_has_a_colon_is_a_script(work: Path) -> None:
    put(work, {"a:b.py": "x = 1"})
    assert ask(work, "a:b.py").kind is TargetKind.SCRIPT


def test_a_script_in_another_encoding_is_read_by_its_cookie(work: Path) -> None:
    put(work, {"latin.py": b"# coding: latin-1\nname = '\xe9'\n", "bom.py": b"\xef\xbb\xbfx = 1\n"})
    assert [ask(work, name).kind for name in ("latin.py", "bom.py")] == [TargetKind.SCRIPT] * 2


def test_what_python_only_warns_about_is_accepted(work: Path) -> None:
    put(work, {"odd.py": "x = '\\d'\nassert (x, 'always')\n"})
    assert ask(work, "odd.py").kind is TargetKind.SCRIPT


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x = 1\ndef (", "{path}:2 is not valid Python: invalid syntax"),
        ("return 1", "{path}:1 is not valid Python: 'return' outside function"),
        ("\nx = 'a", "{path}:2 is not valid Python: unterminated string literal (detected at line 2)"),
        (b"x = '\0'", "{path} holds a NUL byte, so it is not Python source (save it as UTF-8 text)"),
        (
            b"# \xff",
            (
                "{path} cannot be decoded: invalid or missing encoding declaration (save it as UTF-8, "
                "or name its encoding in line 1)"
            ),
        ),
        (
            "# coding: nonsense",
            (
                "{path} cannot be decoded: unknown encoding: nonsense "
                "(save it as UTF-8, or name its encoding in line 1)"
            ),
        ),
    ],
)
def test_a_file_that_is_not_python_is_refused(work: Path, content: str | bytes, message: str) -> None:
    put(work, {"bad.py": content})
    assert refusal(work, "bad.py") == message.format(path=work / "bad.py")


@pytest.mark.parametrize("content", ["(" * 500, "-" * 100_000 + "1", "x = " + "[" * 150 + "]" * 150])
def test_a_file_that_the_parser_gives_up_on_is_refused_or_believed(work: Path, content: str) -> None:
    put(work, {"deep.py": content})
    try:
        ask(work, "deep.py")
    except SpecError as error:
        refused = str(error)
    else:
        refused = str(work / "deep.py")
    assert refused.startswith(str(work / "deep.py"))


def test_bytes_that_do_not_decode_after_line_two_are_refused(work: Path) -> None:
    put(work, {"bad.py": b"x = 1\ny = 2\n# \xff\n"})
    assert "cannot be decoded" in refusal(work, "bad.py")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_is_refused(work: Path) -> None:
    (work / "train.py").chmod(0)
    assert refusal(work, "train.py") == f"{work}/train.py cannot be read: Permission denied"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trian.py", "there is no file trian.py (did you mean train.py?)"),
        ("other/train.py", "there is no file other/train.py (did you mean train.py?)"),
        ("train.py/x.py", "there is no file train.py/x.py (did you mean train.py?)"),
        ("zzz.py", "there is no file zzz.py (paths are taken from {work})"),
        ("train", "there is no file train (did you mean train.py?)"),
        (".", ". is a folder (name a Python file in it)"),
        ("run.sh", "run.sh is not a Python file, and may not be executed (is it a program? chmod +x run.sh)"),
        (
            "pipe.py",
            (
                "pipe.py is not a Python file "
                "(a target is FILE.py, FILE.py:FUNCTION, MODULE:FUNCTION, -m MODULE, or a program)"
            ),
        ),
        (
            "pkg.mod",
            (
                "pkg.mod does not say which function to run "
                "(write pkg.mod:FUNCTION, or -m pkg.mod to run it as a program)"
            ),
        ),
        ("no-such-program", "there is no file no-such-program (paths are taken from {work})"),
        ("nosuchprogram", "there is no file nosuchprogram (paths are taken from {work})"),
        ("-m pkg.nope", "there is no module nope in pkg"),
        ("-m pkg", "pkg is a package without __main__.py (name a module in it: -m pkg.MODULE)"),
        ("-m pkg.mod:go", "-m runs a module, and pkg.mod:go names a function (leave out -m)"),
        ("-m pkg.bad", "{work}/pkg/bad.py:1 is not valid Python: invalid syntax"),
        (
            "n.ipynb",
            (
                "n.ipynb is a notebook, which is no program "
                "(launch from its cells (rankdeck help notebooks), "
                "or make it a script: jupyter nbconvert --to script n.ipynb)"
            ),
        ),
        ("mute", "mute does not say what executes it (begin it with a line such as #!/bin/bash)"),
        ("pkg.mod.go", "pkg.mod.go is neither a file nor a module (write pkg.mod:go)"),
        ("train.py:", "'train.py:' is half a target (write FILE.py:FUNCTION or MODULE:FUNCTION)"),
        (":train", "':train' is half a target (write FILE.py:FUNCTION or MODULE:FUNCTION)"),
        ("train.py:12", "'12' cannot be a function's name (write FILE.py:FUNCTION)"),
        ("train.py:def", "'def' cannot be a function's name (write FILE.py:FUNCTION)"),
        ("", "the target is empty or holds a NUL (name a file, or a function as train.py:train)"),
        ("a\0.py", "the target is empty or holds a NUL (name a file, or a function as train.py:train)"),
    ],
)
def test_a_target_that_is_nothing_to_run_is_refused(work: Path, text: str, message: str) -> None:
    sources = {"pkg/mod.py": "def go(): ...", "pkg/__init__.py": "", "pkg/bad.py": "1 +"}
    put(work, {"run.sh": "echo", "n.ipynb": "{}", "mute": "echo", **sources})
    (work / "mute").chmod(0o755)
    os.mkfifo(work / "pipe.py")
    assert refusal(work, text) == message.format(work=work)


def test_a_name_too_long_for_the_file_system_is_refused(work: Path) -> None:
    assert refusal(work, f"{'a' * 300}.py").endswith("cannot be read: File name too long")


def test_a_program_is_found_by_its_path_and_by_its_name(work: Path) -> None:
    put(work, {"run.sh": "#!/bin/sh\n", "a.out": b"\x7fELF\0", "sub/go": "#!/bin/sh\n"})
    for name in ("run.sh", "a.out", "sub/go"):
        (work / name).chmod(0o755)
        target = resolve(name, params={}, args=["-x", "y z"], workdir=work)
        assert (TargetKind.PROGRAM, str(work / name), ("-x", "y z")) == (
            target.kind,
            target.source,
            target.args,
        )
    assert "sh" == resolve("sh", params={}, args=[], workdir=work).source
    assert resolve("./run.sh", params={}, args=[], workdir=work) == resolve(
        "run.sh", params={}, args=[], workdir=work
    )


def test_a_file_beside_the_caller_goes_before_a_program_on_path(work: Path) -> None:
    put(work, {"sh.py": ""})

    assert "there is no file sh (did you mean sh.py?)" == refusal(work, "sh")


def test_a_module_is_run_as_a_program(work: Path) -> None:
    put(work, {"pkg/__init__.py": "", "pkg/mod.py": "", "pkg/__main__.py": ""})

    for name in ("pkg.mod", "pkg", "json.tool"):
        target = resolve(f"-m {name}", params={}, args=["--lr", "1"], workdir=work)
        assert (TargetKind.MODULE, name, ("--lr", "1")) == (target.kind, target.source, target.args)
        assert (f"-m {name}", ("-m", name)) == (target.label, target.words)


@pytest.mark.parametrize(("text", "kind"), [("run.sh", "program"), ("-m pkg.mod", "module")])
def test_only_a_function_takes_parameters(work: Path, text: str, kind: str) -> None:
    put(work, {"run.sh": "#!/bin/sh\n", "pkg/mod.py": ""})
    (work / "run.sh").chmod(0o755)

    assert f"{text} is a {kind}, and --param is for functions (give it its arguments after --)" == refusal(
        work, text, lr="1"
    )


def test_a_script_takes_no_parameters(work: Path) -> None:
    message = refusal(work, "train.py", lr="1")
    assert message == (
        "train.py is a script, and --param is for functions "
        "(give a script its arguments after --, or name a function: train.py:FUNCTION)"
    )


# --- functions


def test_a_functions_arguments_become_literals_in_the_order_given(work: Path) -> None:
    found = ask(work, "train.py:train", "5", params={"name": "5", "lr": "1"})
    expected = Target(
        TargetKind.FUNCTION,
        str(work / "train.py"),
        "train",
        args=("5",),
        kwargs=(("name", "'5'"), ("lr", "1.0")),
    )
    assert found == expected


def test_star_arguments_take_whatever_is_left(work: Path) -> None:
    found = ask(work, "train.py:rest", "1", "2", "3", params={"on": "true"})
    assert (found.args, found.kwargs) == (("1", "2.0", "3.0"), (("on", "True"),))


def test_star_arguments_are_checked_by_their_annotation(work: Path) -> None:
    assert refusal(work, "train.py:rest", "1", "x") == "parameter 'more' takes float, not 'x'"


@pytest.mark.parametrize("name", ["join", "main", "chosen", "loop", "handle"])
def test_a_name_that_only_running_could_explain_is_accepted_unchecked(work: Path, name: str) -> None:
    found = ask(work, f"train.py:{name}", "a", params={"b": "1"})
    assert (found.args, found.kwargs) == (("'a'",), (("b", "1"),))


@pytest.mark.parametrize("source", ["from x import *", "def __getattr__(name): ..."])
def test_a_file_that_may_define_anything_is_believed(work: Path, source: str) -> None:
    put(work, {"open.py": source})
    assert ask(work, "open.py:anything").name == "anything"


def test_the_last_definition_counts(work: Path) -> None:
    assert refusal(work, "train.py:changed") == "changed needs a (add --param a=…)"


def test_a_private_function_may_be_named(work: Path) -> None:
    assert ask(work, "train.py:_private", "1").args == ("1",)


def test_a_decorated_function_is_checked_only_by_its_types(work: Path) -> None:
    found = ask(work, "train.py:wrapped", params={"a": "1", "other": "x"})
    assert found.kwargs == (("a", "1"), ("other", "'x'"))
    assert refusal(work, "train.py:wrapped", a="x") == "parameter 'a' takes int, not 'x'"


@pytest.mark.parametrize(
    ("text", "args", "params", "message"),
    [
        ("train.py:trian", (), {}, "train.py has no function trian (did you mean train?)"),
        (
            "train.py:zzz",
            (),
            {},
            "train.py has no function zzz (it has train, need, only, rest, wrapped, _private, changed)",
        ),
        (
            "train.py:Model",
            (),
            {},
            "Model in train.py is a class (name a function that makes one and trains)",
        ),
        (
            "train.py:fit",
            (),
            {},
            "fit in train.py is defined inside Model (a target is a function at the top level of its file)",
        ),
        (
            "train.py:Model.fit",
            (),
            {},
            (
                "'Model.fit' is an attribute or a method, which cannot be a target "
                "(call it in a function at the top level of the file, and name that)"
            ),
        ),
        (
            "train.py:later",
            (),
            {},
            "later in train.py is async (name a function that calls asyncio.run on it)",
        ),
        ("train.py:need", (), {}, "need needs data, rate (add --param data=… --param rate=…)"),
        ("train.py:need", ("x",), {}, "need needs rate (add --param rate=…)"),
        ("train.py:only", (), {}, "only needs a (add -- …)"),
        ("train.py:only", (), {"a": "1"}, "only takes 'a' by position only (give it after --)"),
        ("train.py:train", (), {"epoch": "1"}, "train has no parameter 'epoch' (did you mean epochs?)"),
        ("train.py:train", (), {"zzz": "1"}, "train has no parameter 'zzz' (it takes epochs, lr, name)"),
        ("train.py:train", (), {"lr": "abc"}, "parameter 'lr' takes float, not 'abc'"),
        (
            "train.py:train",
            ("1",),
            {"epochs": "1"},
            "train is given 'epochs' twice (by position after --, and by --param)",
        ),
        (
            "train.py:train",
            ("1", "2", "x"),
            {},
            "train takes 2 (epochs, lr) by position, not 3 (name must be named: --param name=…)",
        ),
        ("none.py:f", ("1",), {}, "f takes none by position, not 1"),
        ("none.py:f", (), {"a": "1"}, "f has no parameter 'a' (it takes none by name)"),
        ("none.py:g", (), {}, "none.py has no function g (it has f)"),
        ("empty.py:g", (), {}, "empty.py has no function g (it defines none)"),
        ("gone.py:g", (), {}, "there is no file gone.py (did you mean none.py?)"),
    ],
)
def test_a_call_that_cannot_work_is_refused(
    work: Path, text: str, args: Sequence[str], params: Mapping[str, str], message: str
) -> None:
    put(work, {"none.py": "def f(): ...", "empty.py": ""})
    assert refusal(work, text, *args, **params) == message


# --- modules


@pytest.fixture
def modules(work: Path) -> Path:
    put(
        work,
        {
            "pkg/__init__.py": "from pkg.mod import go\nraise SystemExit('imported')",
            "pkg/mod.py": "def go(x: int): ...\nraise SystemExit('imported')",
            "space/mod.py": "def go(x: int): ...",
            "space/deep/mod.py": "def go(x: int): ...",
        },
    )
    return work


@pytest.mark.parametrize("module", ["pkg.mod", "space.mod", "space.deep.mod"])
def test_a_module_is_found_and_checked_but_not_imported(modules: Path, module: str) -> None:
    target = ask(modules, f"{module}:go", params={"x": "3"})
    assert target == Target(TargetKind.FUNCTION, module, "go", kwargs=(("x", "3"),))
    assert refusal(modules, f"{module}:go", x="a") == "parameter 'x' takes int, not 'a'"
    assert not {module, module.partition(".")[0]} & sys.modules.keys()


def test_a_function_re_exported_by_a_package_is_accepted(modules: Path) -> None:
    assert ask(modules, "pkg:go", "anything").args == ("'anything'",)


def test_the_working_directory_comes_before_what_is_installed(modules: Path) -> None:
    put(modules, {"json.py": "def own(): ..."})
    assert ask(modules, "json:own").source == "json"


def test_a_module_on_sys_path_is_found(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(modules))
    assert ask(Path("/"), "pkg.mod:go", "1").source == "pkg.mod"


@pytest.mark.parametrize("text", ["math:sqrt", "sys:exit", "_json:scanstring"])
def test_a_module_without_source_is_accepted_unchecked(work: Path, text: str) -> None:
    assert ask(work, text, "4").args == ("4",)


def test_a_module_in_a_zip_is_accepted_unchecked(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = work / "code.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped/__init__.py", "")
        file.writestr("zipped/mod.py", "def go(): ...")
    monkeypatch.syspath_prepend(str(archive))
    assert ask(work, "zipped.mod:go", "1").source == "zipped.mod"


def test_a_module_that_appears_later_is_found(work: Path) -> None:
    assert "there is no module fresh" in refusal(work, "fresh:go")
    put(work, {"fresh.py": "def go(): ..."})
    assert ask(work, "fresh:go").name == "go"


def test_threads_that_look_for_modules_do_not_disturb_each_other(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        monkeypatch.syspath_prepend(f"/nowhere/{number}")
    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(lambda _: find_module("zzzz", work), range(400)))
    finally:
        sys.setswitchinterval(switch_s)
    assert found == [None] * 400


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pkg.mdo:go", "there is no module mdo in pkg (did you mean mod?)"),
        ("pkg.x.y:go", "there is no module x in pkg"),
        ("pkg.mod.x:go", "there is no module x in pkg.mod"),
        ("zzzz.mod:go", "there is no module zzzz in {work} or on sys.path"),
        ("trian:go", "there is no module trian in {work} or on sys.path (did you mean train?)"),
        ("space:go", "space is a folder without __init__.py (name a module in it: space.MODULE:FUNCTION)"),
        ("pkg.mod:og", "pkg.mod has no function og (it has go)"),
        ("my-mod:go", "'my-mod' is neither a Python file nor a module (write FILE.py:FUNCTION)"),
        ("pkg..mod:go", "'pkg..mod' is neither a Python file nor a module (write FILE.py:FUNCTION)"),
        ("pkg/mod:go", "there is no file pkg/mod (did you mean pkg/mod.py?)"),
    ],
)
def test_a_module_that_cannot_be_meant_is_refused(modules: Path, text: str, message: str) -> None:
    assert refusal(modules, text) == message.format(work=modules)


# --- browsing


def test_public_functions_come_in_source_order(work: Path) -> None:
    names = [s.name for s in described(work / "train.py")[1]]
    assert names == ["train", "need", "only", "rest", "wrapped", "changed"]


def test_functions_of_a_file_that_is_not_there_are_refused(work: Path) -> None:
    with pytest.raises(SpecError, match="cannot be read: No such file"):
        described(work / "gone.py")


_TREE: Mapping[str, str | bytes] = {
    "b.py": "",
    "a/z.py": "",
    "a/deep/er.py": "",
    "notes.txt": "",
    ".hidden/x.py": "",
    "__pycache__/x.py": "",
    "node_modules/x.py": "",
    "env/pyvenv.cfg": "",
    "env/lib/x.py": "",
    "old/site-packages/x.py": "",
}


def _names(work: Path, limit: int = 2000) -> list[str]:
    return [str(p.relative_to(work)) for p in find_sources(work, limit)]


def test_sources_leave_out_what_nobody_wrote(tmp_path: Path) -> None:
    put(tmp_path, _TREE)
    assert _names(tmp_path) == ["b.py", "a/z.py", "a/deep/er.py"]


def test_the_limit_cuts_the_deepest(tmp_path: Path) -> None:
    put(tmp_path, _TREE)
    assert _names(tmp_path, 2) == ["b.py", "a/z.py"]


def test_sources_of_a_hidden_folder_are_found_when_it_is_asked_for(tmp_path: Path) -> None:
    put(tmp_path / ".work", _TREE)
    assert _names(tmp_path / ".work", 1) == ["b.py"]


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    put(tmp_path, {"a/x.py": ""})
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / "broken.py").symlink_to(tmp_path / "nowhere")
    assert _names(tmp_path) == ["a/x.py"]


def test_a_folder_that_is_not_there_has_no_sources(tmp_path: Path) -> None:
    assert find_sources(tmp_path / "gone") == []


def _git(folder: Path, *command: str) -> None:
    subprocess.run(["git", "-C", str(folder), *command], check=True, capture_output=True)


def test_in_a_checkout_what_git_ignores_is_left_out(tmp_path: Path) -> None:
    put(tmp_path, {**_TREE, ".gitignore": "out/\n", "out/x.py": "", "gone.py": ""})
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "add", "gone.py", "b.py")
    (tmp_path / "gone.py").unlink()
    assert _names(tmp_path) == ["b.py", "a/z.py", "a/deep/er.py"]


def test_an_ignored_folder_is_walked_when_it_is_asked_for(tmp_path: Path) -> None:
    put(tmp_path, {".gitignore": "out/\n", "out/x.py": ""})
    _git(tmp_path, "init", "-q")
    assert _names(tmp_path / "out") == ["x.py"]
