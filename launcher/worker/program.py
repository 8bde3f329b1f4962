"""Running the user's target inside a rank: as `__main__`, or as a function of a module.

The target must see what it would see if Python had started it: its own `__main__`, `sys.argv`,
`sys.path[0]`, and tracebacks without our frames.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.util
import json
import os
import pickle
import sys
import traceback
import types
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from launcher.spec import Target, TargetKind
from launcher.worker import raising

_OURS = os.path.dirname((lambda: 0).__code__.co_filename)  # in a zip, where it was compiled
_HOOKS = raising.Raising.look.__code__.co_filename
_PACKAGE = Path(__file__).parent.parent
_NAME = "launcher"
TRACEBACK = 48 << 10


def load(target: Target, payload: bytes, lead: str = "") -> Callable[[], Any]:
    """What to call to run the target; a script returns None.

    Args:
        target: what to run.
        payload: the pickle that belongs to it.
        lead: the folder to import from first, where the target is no file; empty for the working directory.

    Whatever importing the target raises is the user's, and passes through.
    """
    if target.kind is TargetKind.SCRIPT:
        return _script(target)
    if target.kind is TargetKind.CALLABLE:
        _lead_path(lead or os.getcwd())
        function, args, kwargs = pickle.loads(payload)
        return lambda: function(*args, **kwargs)
    function = getattr(_module(target, lead), target.name)
    args, kwargs = pickle.loads(payload) if target.pickled else _literals(target)
    return lambda: function(*args, **kwargs)


def _literals(target: Target) -> tuple[list[Any], dict[str, Any]]:
    return (
        [ast.literal_eval(a) for a in target.args],
        {k: ast.literal_eval(v) for k, v in target.kwargs},
    )


def _script(target: Target) -> Callable[[], Any]:
    """The script as `__main__`, kept alive to the end of the process for its threads and pickles."""
    path = Path(target.source)
    sys.argv = [target.source, *target.args]
    _lead_path(os.path.dirname(os.path.realpath(path)))  # as Python does for a link to a script
    code = compile(path.read_bytes(), target.source, "exec", dont_inherit=True)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=target.source, __builtins__=builtins, __spec__=None)
    sys.modules["__main__"] = module

    def run() -> None:
        exec(code, module.__dict__)

    return run


def _module(target: Target, lead: str) -> types.ModuleType:
    if not target.is_file:
        _lead_path(lead or os.getcwd())
        sys.argv = [target.label]
        return importlib.import_module(target.source)
    path = Path(target.source)
    _lead_path(os.path.dirname(os.path.realpath(path)))
    sys.argv = [target.source]
    # A file named like a module that is already there (json.py) must not be mistaken for it.
    name = path.stem if path.stem not in sys.modules else f"_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _lead_path(folder: str) -> None:
    """Make `folder` the first place to import from, and let a `launcher` of the user's have that name."""
    sys.path.insert(0, folder)
    found = PathFinder.find_spec(_NAME, sys.path)
    places = [Path(p) for p in (found.submodule_search_locations or ())] if found else []
    if found and not any(p == _PACKAGE or (p / "worker" / "program.py").exists() for p in places):
        for name in [n for n in sys.modules if n.partition(".")[0] == _NAME]:
            del sys.modules[name]  # we hold what we need; only the name is given up


def strip(tb: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback without the frames through which we called the user's code, and it called torch."""
    while tb is not None and (_is_plumbing(tb.tb_frame.f_code.co_filename) or _is_command(tb.tb_frame)):
        tb = tb.tb_next
    inner = tb
    while inner is not None:
        while inner.tb_next is not None and inner.tb_next.tb_frame.f_code.co_filename == _HOOKS:
            inner.tb_next = inner.tb_next.tb_next
        inner = inner.tb_next
    return tb


def _is_command(frame: types.FrameType) -> bool:
    """Whether it is the command line's own code, at the bottom of the stack."""
    return frame.f_back is None and frame.f_code.co_filename == "<string>"


def _is_plumbing(filename: str) -> bool:
    return filename.startswith((_OURS, "<frozen importlib", importlib.__file__))


def frames(tb: types.TracebackType | None) -> list[tuple[str, int, str]]:
    """(file, line, function) of the traceback, without the standard library's and installed packages'."""
    found = [(f.filename, f.lineno or 0, f.name) for f in traceback.extract_tb(tb)]
    own = [
        f for f in found if "site-packages" not in f[0] and not f[0].startswith((sys.base_prefix, "<frozen"))
    ]
    return own or found


def text_of(error: BaseException, tb: types.TracebackType | None) -> str:
    """The traceback as Python prints it, its middle left out if it is monstrous."""
    return cut("".join(traceback.format_exception(type(error), error, tb)), TRACEBACK)


def cut(text: str, limit: int) -> str:
    """The text with its middle left out where it would take more than `limit` bytes as JSON."""
    size = len(json.dumps(text))
    if size <= limit:
        return text
    keep = len(text) * limit // size // 2 - 20
    while len(json.dumps(text[:keep] + text[-keep:])) > limit - 60:
        keep = keep * 3 // 4
    return f"{text[:keep]}\n… {len(text) - 2 * keep} characters left out …\n{text[-keep:]}"
