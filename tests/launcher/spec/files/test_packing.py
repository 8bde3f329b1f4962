"""A target's own sources on hosts that have none of them: what is sent, and what a rank makes of it."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from launcher.agent import leftovers
from launcher.distributor import launch, pack
from launcher.errors import SpecError
from launcher.job import Job
from launcher.runs import paths
from launcher.spec.files import packing
from launcher.spec.files.bundle import SOURCES, Bundle
from launcher.spec.files.packing import make_bundle
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.request import Request
from launcher.state import events as ev
from launcher.state.ranks import RankPhase
from tests import segments
from tests.agents import Agents
from tests.commands import until

FILES = {
    "train.py": (
        "import os, sys\n"
        "import helper\n"
        "from pkg.deep import value\n"
        "from launcher import publish, report\n"
        "report(step=1)\n"
        "publish([__file__, helper.__file__, sys.path[0], os.getcwd(), value()])\n"
        "def main():\n"
        "    return [__file__, value()]\n"
        "def fails():\n"
        "    value(1 / 0)\n"
    ),
    "helper.py": "WORD = 'first'\ndef crash():\n    raise ValueError('from afar')\n",
    "pkg/__init__.py": "",
    "pkg/deep.py": "import helper\ndef value():\n    return helper.WORD\ndef crash():\n    helper.crash()\n",
    "crashes.py": (
        "from pkg import deep\ndef main():\n    deep.crash()\nif __name__ == '__main__':\n    main()\n"
    ),
    "data.txt": "not Python",
    ".hidden/secret.py": "",
    "venv/pyvenv.cfg": "",
    "venv/lib.py": "",
}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A script with siblings and a package."""
    folder = tmp_path / "work"
    write(folder, FILES)
    return folder


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def spec_of(target: Target | str, work: Path, **options: Any) -> JobSpec:
    if isinstance(target, str):
        source, _, name = target.partition(":")
        kind = TargetKind.FUNCTION if name else TargetKind.SCRIPT
        place = str(work / source) if source.endswith(".py") else source
        target = Target(kind, place, name)
    return JobSpec(target, mode=Mode.CLUSTER, **{"workdir": str(work), **options})


def names(bundle: Bundle, below: Path | str = "/") -> set[str]:
    """The files in a bundle, by their paths below a folder."""
    prefix = f"{SOURCES}{below}".rstrip("/") + "/"
    places = [file.place for file in bundle.manifest.files]
    return {place.removeprefix(prefix) for place in places if place.startswith(prefix)}


def sources(bundle: Bundle, below: Path | str = "/") -> set[str]:
    """Those of them that are Python."""
    return {name for name in names(bundle, below) if name.endswith(".py")}


# --- what is sent


def test_a_script_brings_what_lies_beside_it_and_below(work: Path) -> None:
    data = make_bundle(spec_of("train.py", work))

    assert names(data, work) == {
        "train.py",
        "helper.py",
        "crashes.py",
        "pkg/__init__.py",
        "pkg/deep.py",
        "data.txt",
    }
    assert data.contents == make_bundle(spec_of("train.py", work)).contents


def test_a_linked_script_brings_what_lies_beside_the_file(work: Path, tmp_path: Path) -> None:
    link = tmp_path / "elsewhere" / "start.py"
    link.parent.mkdir()
    link.symlink_to(work / "train.py")
    (link.parent / "unrelated.py").write_text("")

    assert names(make_bundle(spec_of("start.py", link.parent)), work) >= {"train.py", "helper.py"}
    assert not names(make_bundle(spec_of("start.py", link.parent)), link.parent)


def test_generated_modules_come_along_and_ignored_folders_do_not(work: Path) -> None:
    subprocess.run(["git", "init", "-q", work], check=True)
    write(work, {".gitignore": "_version.py\nout/\n", "pkg/_version.py": "", "out/copy.py": "", "new.py": ""})

    found = names(make_bundle(spec_of("train.py", work)), work)
    assert {"pkg/_version.py", "new.py", "train.py"} <= found
    assert not {"out/copy.py", ".hidden/secret.py", "venv/lib.py"} & found


def test_a_linked_package_comes_along_and_a_link_upwards_does_not(work: Path, tmp_path: Path) -> None:
    write(tmp_path / "common", {"tools/__init__.py": "", "tools/a.py": "", "data/large.py": ""})
    write(work, {"__init__.py": ""})
    (work / "tools").symlink_to(tmp_path / "common" / "tools")
    (work / "data").symlink_to(tmp_path / "common" / "data")
    (work / "again").symlink_to(work)

    found = names(make_bundle(spec_of("train.py", work)), work)
    assert {"tools/__init__.py", "tools/a.py"} <= found
    assert not {n for n in found if n.startswith(("data/", "again"))}


def test_thousands_of_files_are_all_sent(work: Path) -> None:
    write(work, {f"many/d{i % 60}/m{i}.py": "" for i in range(3000)})

    assert len(sources(make_bundle(spec_of("train.py", work)), work)) == 3005


def test_too_many_files_are_refused_in_words(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "FILES", 4)

    with pytest.raises(SpecError, match=r"more than 4 Python files in .*own"):
        make_bundle(spec_of("train.py", work))


def test_too_much_python_is_refused_with_the_largest_file(work: Path) -> None:
    for name in ("large.py", "pkg/larger.py"):
        with open(work / name, "wb") as file:
            file.truncate((16 << 20) + len(name))

    with pytest.raises(SpecError, match=r"32 MiB, and 32 MiB can be sent.*pkg/larger\.py"):
        make_bundle(spec_of("train.py", work))


def test_a_neighbour_that_cannot_be_read_is_left_out(work: Path) -> None:
    (work / "foreign.py").write_text("")
    (work / "foreign.py").chmod(0)
    (work / "dangling.py").symlink_to(work / "nowhere.py")
    (work / "folder.py").mkdir()
    with unprivileged(work):
        found = names(make_bundle(spec_of("train.py", work)), work)

    assert "train.py" in found
    assert not {"foreign.py", "dangling.py", "folder.py"} & found


def test_a_target_that_cannot_be_read_is_told(work: Path) -> None:
    (work / "train.py").chmod(0)

    with unprivileged(work), pytest.raises(SpecError, match=r"train\.py cannot be read: Permission denied"):
        make_bundle(spec_of("train.py", work))


class unprivileged:  # noqa: N801  a context manager
    """As somebody whom permissions bind: root reads everything."""

    def __init__(self, *folders: Path) -> None:
        for folder in folders:
            for place in (folder, *folder.parents):
                if place.owner() == "root" and place != Path("/") and os.getuid() == 0:
                    place.chmod(place.stat().st_mode | 0o055)

    def __enter__(self) -> None:
        if os.getuid() == 0:
            os.seteuid(65534)

    def __exit__(self, *_: object) -> None:
        os.seteuid(os.getuid())


def test_names_that_are_no_text_are_left_out_or_told(work: Path) -> None:
    odd = os.fsdecode(os.fsencode(work) + b"/\xff.py")
    Path(odd).write_text("")
    assert len(sources(make_bundle(spec_of("train.py", work)), work)) == 5

    with pytest.raises(SpecError, match="not UTF-8"):
        make_bundle(spec_of(Target(TargetKind.SCRIPT, odd), work))


def test_a_function_of_a_module_brings_the_folder_that_it_is_imported_from(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "helper.py" in names(make_bundle(spec_of("pkg.deep:value", work)), work)

    (tmp_path / "cwd").mkdir()
    write(tmp_path / "cwd", {"unrelated.py": ""})
    monkeypatch.syspath_prepend(str(work))
    data = make_bundle(spec_of("pkg.deep:value", tmp_path / "cwd"))
    assert "helper.py" in names(data, work)
    assert not names(data, tmp_path / "cwd")


@pytest.mark.parametrize("module", ["json:dumps", "click:echo", "launcher.examples.digits:split", "sys:exit"])
def test_what_is_installed_is_not_sent(work: Path, module: str) -> None:
    sent = make_bundle(spec_of(module, work))
    assert names(sent) == {f"{work}/{name}".lstrip("/") for name in names(sent, work)}


def test_a_callable_brings_the_packages_of_this_process(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(work))
    deep = importlib.import_module("pkg.deep")

    try:
        target, _ = pack(deep.value, (), {}, workdir=tmp_path)
        data = make_bundle(JobSpec(target, mode=Mode.CLUSTER, workdir=str(tmp_path)))
    finally:
        forget("pkg", "helper")

    assert names(data, work) == {n for n in FILES if n in names(data, work)} >= {"helper.py", "pkg/deep.py"}
    whole = names(data)
    assert not [
        n for n in whole if "site-packages" in n or n.endswith(("json/__init__.py", "pyspark/sql.py"))
    ]
    assert not [n for n in whole if "/launcher/" in n and "/tests/" not in n]


def forget(*modules: str) -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] in modules]:
        del sys.modules[name]


def test_a_program_brings_itself_and_what_a_script_would_bring(work: Path) -> None:
    write(work, {"run.sh": "#!/bin/sh\n", "other.sh": ""})
    data = make_bundle(spec_of(Target(TargetKind.PROGRAM, str(work / "run.sh")), work))

    assert {"run.sh", "train.py", "helper.py", "pkg/deep.py"} <= names(data, work)
    assert "other.sh" in names(data, work)


@pytest.mark.parametrize("program", ["sh", "/bin/sh", "/usr/bin/env", sys.executable])
def test_a_program_of_the_system_is_not_sent_and_the_callers_folder_is(work: Path, program: str) -> None:
    sent = make_bundle(spec_of(Target(TargetKind.PROGRAM, program), work))
    assert names(sent) == {f"{work}/{name}".lstrip("/") for name in names(sent, work)}
    assert {"train.py", "data.txt"} <= names(sent, work)


def test_a_module_that_is_run_brings_the_folder_that_it_is_imported_from(work: Path) -> None:
    data = make_bundle(spec_of(Target(TargetKind.MODULE, "pkg.deep"), work))

    assert {"pkg/deep.py", "helper.py"} <= names(data, work)


# --- --py-files


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    folder = tmp_path / "libraries"
    write(
        folder,
        {
            "one.py": "NAME = 'one'\n",
            "folder/two.py": "NAME = 'two'\n",
            "whole/__init__.py": "NAME = 'three'\n",
            "whole/part.py": "",
            "notes.txt": "words",
            "fake.zip": "words",
            "torch/__init__.py": "raise SystemExit('not this one')\n",
        },
    )
    for name, module in (("a/lib.zip", "four"), ("b/lib.zip", "five"), ("six-1.0-py3-none-any.whl", "six")):
        (folder / name).parent.mkdir(exist_ok=True)
        with zipfile.ZipFile(folder / name, "w") as zipped:
            zipped.writestr(f"{module}.py", f"NAME = {module!r}\n")
    return folder


EVERY = ("one.py", "folder", "whole", "a/lib.zip", "b/lib.zip", "six-1.0-py3-none-any.whl")


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("missing.py", "there is no .*missing"),
        ("one.py,folder", "once for each"),
        ("notes.txt", r"takes Python files, folders, zips and wheels, not .*notes\.txt"),
        ("fake.zip", r"not .*fake\.zip"),
    ],
)
def test_what_cannot_be_sent_along_is_told(work: Path, libraries: Path, file: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        make_bundle(spec_of("train.py", work, py_files=(str(libraries / file),)))


def test_a_named_file_that_cannot_be_read_is_told(work: Path, libraries: Path) -> None:
    (libraries / "one.py").chmod(0)

    with unprivileged(libraries, work), pytest.raises(SpecError, match=r"one\.py cannot be read"):
        make_bundle(spec_of("train.py", work, py_files=(str(libraries / "one.py"),)))


# --- on a host


@dataclass
class Host:
    """This machine, as a host with or without the caller's files."""

    tmp: Path
    runs: list[Agents] = field(default_factory=list)

    def run(self, spec: JobSpec, *, before: Callable[[], object] = bool, **more: Any) -> Job:
        env = {"TMPDIR": str(self.tmp), **more.pop("env", {})}
        backend = Agents(more.pop("agents", 1), env=env, before=before)
        self.runs.append(backend)
        job = launch(Request(spec, **more), backend=backend)
        job.wait(60)
        assert backend.errors == []
        return job


@pytest.fixture
def host(tmp_path: Path, mark: str) -> Iterator[Host]:
    """A host whose temporary folder is empty before and after, but for the cache of contents."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    yield Host(scratch)
    assert folders_in(scratch) == []


def folders_in(scratch: Path) -> list[Path]:
    """What agents have in a temporary folder, but for the cache of contents."""
    return [path for path in scratch.iterdir() if not path.name.startswith("rankdeck-cache-")]


@pytest.mark.process
def test_a_program_is_executed_on_a_host_that_has_it_not(work: Path, host: Host, tmp_path: Path) -> None:
    write(work, {"run.sh": '#!/bin/sh\necho "$1 $0"; python -c "import helper; print(helper.WORD)"\n'})
    (work / "run.sh").chmod(0o755)
    spec = spec_of(Target(TargetKind.PROGRAM, str(work / "run.sh"), args=("x",)), work)
    job = host.run(spec, before=lambda: work.rename(tmp_path / "gone"))

    first, second = paths.log_file(job.folder, 0, 0, paths.STDOUT).read_text().splitlines()
    assert first.startswith("x /")
    assert first.endswith(f"{work}/run.sh")
    assert "first" == second  # its folder became the working directory


@pytest.mark.process
def test_a_module_is_run_on_a_host_that_has_it_not(work: Path, host: Host, tmp_path: Path) -> None:
    write(work, {"pkg/main.py": "import helper, launcher\nlauncher.publish([__name__, helper.WORD])\n"})
    spec = spec_of(Target(TargetKind.MODULE, "pkg.main"), work)

    assert ["__main__", "first"] == host.run(spec, before=lambda: work.rename(tmp_path / "gone")).result()


def raised(job: Job) -> ev.RankRaised:
    return next(e for e in job.events() if isinstance(e, ev.RankRaised))


@pytest.mark.process
def test_the_very_same_files_are_run_in_place(work: Path, host: Host) -> None:
    found = host.run(spec_of("train.py", work)).result()

    assert found == [str(work / "train.py"), str(work / "helper.py"), str(work), str(work), "first"]


@pytest.mark.process
@pytest.mark.parametrize("changed", ["train.py", "helper.py", "pkg/deep.py"])
def test_other_files_under_the_same_paths_are_not_run(work: Path, host: Host, changed: str) -> None:
    """An old checkout on a host, or a file that was edited since."""
    spec = spec_of("train.py", work)
    found = host.run(spec, before=lambda: (work / changed).write_text("raise SystemExit('old')")).result()

    assert found[4] == "first"
    assert all(
        path.endswith(str(work / name)) for path, name in zip(found, ("train.py", "helper.py"), strict=False)
    )
    assert found[0].startswith(str(host.tmp))
    assert found[2] == found[3] == os.path.dirname(found[0])


@pytest.mark.process
@pytest.mark.parametrize("agents", [1, 2])
def test_a_host_without_the_files_runs_copies(work: Path, host: Host, agents: int) -> None:
    spec = spec_of("train.py", work, num_processes=agents)
    job = host.run(spec, before=lambda: shutil.rmtree(work), agents=agents)
    found = job.results()
    assert all(f[4] == "first" and f[0].startswith(str(host.tmp)) for f in found)
    assert len({f[0] for f in found}) == 1  # the agents of a host share the folder
    assert all(f[3] == os.path.dirname(f[0]) for f in found)


@pytest.mark.process
@pytest.mark.parametrize("target", ["crashes.py", "crashes.py:main", "crashes:main"])
def test_tracebacks_name_the_callers_own_files(work: Path, host: Host, target: str) -> None:
    told = raised(host.run(spec_of(target, work), before=lambda: shutil.rmtree(work)))

    here = [str(work / "crashes.py"), str(work / "pkg/deep.py"), str(work / "helper.py")]
    assert list(dict.fromkeys(frame[0] for frame in told.frames)) == here
    assert all(f'File "{path}", line' in told.traceback for path in here)
    assert str(host.tmp) not in told.traceback
    assert "raise ValueError('from afar')" in told.traceback
    assert here == list(dict.fromkeys(each.file for each in reversed(told.excerpts)))
    assert any("raise ValueError('from afar')" in line for line in told.excerpts[0].lines)
    assert not any(each.changed for each in told.excerpts)


@pytest.mark.process
def test_a_module_is_what_was_sent_and_not_what_lies_there(work: Path, host: Host) -> None:
    def older() -> None:
        (work / "helper.py").write_text("WORD = 'old'\n")

    assert host.run(spec_of("pkg.deep:value", work), before=older).result() == "first"
    assert host.run(spec_of("train.py:main", work), before=older).result()[1] == "old"  # sent so this time


@pytest.mark.process
def test_a_callable_finds_its_modules(
    work: Path, host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "notebook"
    elsewhere.mkdir()
    hidden = work.with_name("hidden")
    monkeypatch.syspath_prepend(str(work))
    deep = importlib.import_module("pkg.deep")

    try:
        for function in (deep.value, deep.crash):
            target, payload = pack(function, (), {}, workdir=elsewhere)
            spec = JobSpec(target, mode=Mode.CLUSTER, workdir=str(elsewhere))
            job = host.run(spec, payload=payload, before=lambda: work.rename(hidden))
            hidden.rename(work)
            if function is deep.value:
                assert job.result() == "first"
            else:
                assert raised(job).frames[-1][0] == str(work / "helper.py")
    finally:
        forget("pkg", "helper")


@pytest.mark.process
def test_a_callable_needs_no_folder_of_the_callers(host: Host, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    target, payload = pack(lambda: os.getcwd(), (), {}, workdir=gone)
    spec = JobSpec(target, mode=Mode.CLUSTER, workdir=str(gone))
    job = host.run(spec, payload=payload, before=gone.rmdir)

    assert job.result().startswith(str(host.tmp))
    assert not gone.exists()


@pytest.mark.process
@pytest.mark.parametrize("hidden", [False, True])
def test_every_kind_of_library_is_imported(work: Path, libraries: Path, host: Host, hidden: bool) -> None:
    (work / "uses.py").write_text(
        "import one, two, whole.part, four, five, six, importlib.util, launcher\n"
        "modules = (one, two, whole, four, five, six)\n"
        "found = importlib.util.find_spec('torch')\n"
        "launcher.publish([*(m.NAME for m in modules), found and found.origin])\n"
    )
    spec = spec_of("uses.py", work, py_files=tuple(str(libraries / name) for name in EVERY))
    before = (lambda: shutil.rmtree(libraries)) if hidden else bool
    *found, torch = host.run(spec, before=before).result()

    assert found == ["one", "two", "three", "four", "five", "six"]
    assert torch is None or "site-packages" in torch  # a library brings none of its neighbours


@pytest.mark.process
def test_a_users_own_package_called_launcher_is_theirs(work: Path, host: Host) -> None:
    write(work, {"launcher/__init__.py": "", "launcher/mine.py": "WORD = 'mine'\n"})
    write(work, {"own.py": "from launcher import mine\ndef main():\n    return mine.WORD, mine.__file__\n"})
    word, file = host.run(spec_of("own.py:main", work), before=lambda: shutil.rmtree(work)).result()

    assert word == "mine"
    assert file.startswith(str(host.tmp))


# --- the folder


@pytest.mark.process
def test_spark_s_own_scratch_space_is_taken_where_it_can_be(work: Path, host: Host, tmp_path: Path) -> None:
    usable, file = tmp_path / "spark", tmp_path / "file"
    usable.mkdir()
    file.write_text("")
    for places, chosen in (
        ([usable], usable),
        (["", "relative", tmp_path / "absent", file, usable], usable),
        ([tmp_path / "absent"], host.tmp),
    ):
        (work / "helper.py").write_text("WORD = 'first'\n")
        env = {"SPARK_EXECUTOR_DIRS": os.pathsep.join(map(str, places))}
        job = host.run(
            spec_of("train.py", work), env=env, before=lambda: (work / "helper.py").write_text("x")
        )
        assert job.result()[0].startswith(f"{chosen}/rankdeck-")
        assert list(usable.iterdir()) == []


def test_no_place_at_all_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(leftovers, "_USUAL", (str(tmp_path / "absent"),))

    with pytest.raises(OSError, match="No such file"):
        leftovers.make_folder({"SPARK_EXECUTOR_DIRS": "", "TMPDIR": ""})


def _running(job: Job) -> bool:
    ranks = job.state.ranks
    return bool(ranks) and all(r.phase is RankPhase.RUNNING for r in ranks)


@pytest.mark.process
@pytest.mark.parametrize(
    ("victim", "number"),
    [
        ("agent", signal.SIGTERM),
        ("agent", signal.SIGKILL),
        ("warden", signal.SIGTERM),
        ("warden", signal.SIGKILL),
        ("lifeline", 0),
        ("engine", 0),
    ],
)
def test_the_folder_and_shared_memory_go_however_the_agent_ends(
    work: Path, host: Host, tmp_path: Path, victim: str, number: int
) -> None:
    target = "import signal, helper\n" + segments.MAKE + "signal.pause()\n"
    (work / "waits.py").write_text(target)
    backend = Agents(1, env={"TMPDIR": str(host.tmp)}, before=lambda: shutil.rmtree(work))
    job = launch(Request(spec_of("waits.py", work, grace_s=0.5, framework="deepspeed")), backend=backend)
    until(lambda: bool(segments.made_by(job, 1)))
    left = segments.made_by(job, 1)
    assert _running(job)
    assert len(folders_in(host.tmp)) == 1
    if victim == "lifeline":
        backend.abort()
    elif victim == "engine":
        stream = job._supervisor._roster._links[0]._sock
        assert isinstance(stream, socket.socket)
        stream.shutdown(socket.SHUT_RDWR)
    else:
        os.kill(job.state.hosts[0].pid if victim == "agent" else backend.processes[0].pid, number)
    until(lambda: folders_in(host.tmp) == [])
    assert not any(segment.exists() for segment in left)
    job.stop(force=True)
    job.wait(60)
