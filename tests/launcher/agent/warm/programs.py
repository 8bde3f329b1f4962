"""Small programs, each of which would tell a forked rank from one of a fresh interpreter if that were possible.

They print what they find, without what differs between any two processes (pids, addresses, ports).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    """A program: its files, how it is started, and how many ranks it has."""

    source: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    ranks: int = 1
    kind: str = "script"
    name: str = ""
    threads: str = "1"


HELPER = {"helper.py": "class Point:\n    x = 4\ndef where():\n    return __name__, __file__\n"}
SHOW = "import sys\nfrom helper import where\nprint(where(), sys.path[0], 'helper' in sys.modules)\n"
POOL = """
import multiprocessing, sys
class Point:
    def __init__(self, x): self.x = x
def double(point): return Point(2 * point.x), multiprocessing.current_process().name != "MainProcess"
if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    with context.Pool(2) as pool:
        print([(p.x, other) for p, other in pool.map(double, [Point(1), Point(2)])])
"""
LOADER = """
import torch
from torch.utils.data import DataLoader, Dataset
class Squares(Dataset):
    def __len__(self): return 8
    def __getitem__(self, i): return torch.tensor(i * i)
if __name__ == "__main__":
    loader = DataLoader(Squares(), batch_size=2, num_workers=2, multiprocessing_context={method!r})
    print([batch.tolist() for batch in loader])
"""
TOGETHER = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
{body}
dist.destroy_process_group()
"""

PROGRAMS: Mapping[str, Case] = {
    # --- what Python's start leaves
    "argv": Case("import sys; print(sys.argv)", args=("--lr", "0.1", "a b")),
    "orig_argv": Case("import sys; print(len(sys.orig_argv), sys.orig_argv[:3])"),
    "path": Case("import sys; print(sys.path)"),
    "meta_path": Case("import sys; print([type(f).__name__ for f in sys.meta_path], len(sys.path_hooks))"),
    "main": Case("print(__name__, __file__, __spec__, __package__, sorted(globals()))"),
    "doc": Case('"""What it is."""\nprint(__doc__, __builtins__.__name__)'),
    "main_module": Case(
        "import sys; print(sys.modules['__main__'].__file__, vars(sys.modules['__main__']) is globals())"
    ),
    "flags": Case("import sys; print(sys.flags, sys.warnoptions, sys._xoptions, sys.dont_write_bytecode)"),
    "executable": Case(
        "import sys; print(sys.executable, sys.prefix, sys.base_prefix, sys._base_executable)"
    ),
    "implementation": Case(
        "import sys; print(sys.getrecursionlimit(), sys.getswitchinterval(), sys.hash_info)"
    ),
    "encodings": Case(
        "import sys, locale; print(locale.getlocale(), locale.getpreferredencoding(), sys.getfilesystemencoding())"
    ),
    "site": Case("import site; print(site.ENABLE_USER_SITE, site.getsitepackages(), site.USER_BASE)"),
    "stdin": Case("import sys; print(repr(sys.stdin.read()), sys.stdin.encoding, sys.stdin.isatty())"),
    "stdout": Case(
        "import sys\nfor s in (sys.stdout, sys.stderr, sys.__stdout__):\n"
        "    print(s.encoding, s.errors, s.line_buffering, s.write_through, s.name, s.mode, s.isatty(), s.fileno())"
    ),
    "filters": Case("import torch, warnings; print([(f[0], f[2].__name__) for f in warnings.filters])"),
    "excepthook": Case(
        "import sys; print(sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__)"
    ),
    "tracing": Case(
        "import sys, tracemalloc; print(sys.gettrace(), sys.getprofile(), tracemalloc.is_tracing())"
    ),
    "collector": Case("import gc; print(gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.callbacks)"),
    "threads": Case(
        "import threading as t; print([x.name for x in t.enumerate()], t.current_thread() is t.main_thread(),\n"
        "    t.get_native_id() == __import__('os').getpid(), t.active_count(),\n"
        "    t.main_thread().native_id == t.get_native_id())"
    ),
    "heap": Case(
        "import ctypes\nallocate = ctypes.CDLL(None).malloc\nallocate.restype = ctypes.c_void_p\n"
        "place, = [l.split()[0] for l in open('/proc/self/maps') if l.endswith('[heap]\\n')]\n"
        "begin, end = (int(a, 16) for a in place.split('-'))\nprint(begin <= allocate(5000) < end)"
    ),
    "logging": Case(
        "import logging; print(logging.root.handlers, logging.root.level, sorted(logging.root.manager.loggerDict)[:0])"
    ),
    "faults": Case("import faulthandler; print(faulthandler.is_enabled())"),
    "metadata": Case("import importlib.metadata as m; print(m.version('pytest'), m.version('torch'))"),
    # --- what the kernel knows
    "environ": Case(
        "import os\nfor k, v in sorted(os.environ.items()): print(k, v)", env={"ANSWER": "42", "EMPTY": ""}
    ),
    "environ_of_children": Case(
        "import subprocess\nlines = subprocess.run(['env'], capture_output=True, text=True).stdout.splitlines()\n"
        "print(*sorted(lines), sep='\\n')",
        env={"ANSWER": "4 2"},
    ),
    "environ_in_c": Case(
        "import ctypes, os; c = ctypes.CDLL(None); c.getenv.restype = ctypes.c_char_p\n"
        "print(c.getenv(b'ANSWER'), c.getenv(b'MISSING'))",
        env={"ANSWER": "42"},
    ),
    "time_zone": Case("import time; print(time.tzname, time.localtime(0).tm_hour)", env={"TZ": "Asia/Tokyo"}),
    "folder": Case("import os; print(os.getcwd(), os.listdir('.'))"),
    "temporary": Case(
        "import os, tempfile; print(tempfile.gettempdir() == os.environ['TMPDIR'])",
        env={"TMPDIR": "/var/tmp"},
    ),
    "attributes": Case(
        "import os; print(oct(os.umask(0)), os.getpriority(os.PRIO_PROCESS, 0), sorted(os.sched_getaffinity(0)))"
    ),
    "limits": Case(
        "import resource as r\nfor n in sorted(x for x in dir(r) if x.startswith('RLIMIT')):\n"
        "    print(n, r.getrlimit(getattr(r, n)))"
    ),
    "session": Case(
        "import os; print(os.getsid(0) == os.getpgid(0) == os.getpid(), os.getuid(), os.getgroups())"
    ),
    "descriptors": Case(
        "import os, stat\nfound = []\nfor n in map(int, os.listdir('/proc/self/fd')):\n"
        "    try: found.append((min(n, 3), stat.S_IFMT(os.fstat(n).st_mode), os.get_inheritable(n)))\n"
        "    except OSError: pass\nprint(sorted(found))"
    ),
    "descriptors_of_children": Case(
        "import subprocess; print(subprocess.run(['ls', '/proc/self/fd'], capture_output=True, text=True, close_fds=False).stdout)"
    ),
    "signals": Case(
        "import signal\nfor s in sorted(signal.valid_signals()):\n"
        "    h = signal.getsignal(s); print(int(s), getattr(h, '__name__', h))\n"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.set_wakeup_fd(-1))"
    ),
    "signals_of_children": Case(
        "import subprocess; text = subprocess.run(['cat', '/proc/self/status'], capture_output=True, text=True).stdout\n"
        "print([line for line in text.splitlines() if line.startswith(('SigIgn', 'SigBlk'))])"
    ),
    "name": Case("print(open('/proc/self/comm').read())"),
    "times": Case("import os, resource; t = os.times(); print(t.children_user, t.children_system)"),
    "timers": Case("import signal; print(signal.getitimer(signal.ITIMER_REAL), signal.alarm(0))"),
    # --- how it ends
    "exit_code": Case("import sys; sys.exit(3)"),
    "exit_text": Case("import sys; sys.exit('no such file')"),
    "exit_large": Case("import sys; sys.exit(1 << 40)"),
    "exit_now": Case("import os; print('x', end='', flush=True); os._exit(5)"),
    "raises": Case("def f(n):\n    return 1 / n\nprint('before')\nf(0)"),
    "raises_a_chain": Case(
        "try:\n    {}['k']\nexcept KeyError as e:\n    raise RuntimeError('out') from e", args=("x",)
    ),
    "raises_a_group": Case("raise ExceptionGroup('two', [ValueError(1), TypeError(2)])"),
    "syntax": Case("print('a'\nif"),
    "missing": Case("import no_such_module_anywhere"),
    "hook": Case("import sys\nsys.excepthook = lambda *a: print('mine', a[1])\nraise ValueError('v')"),
    "hook_that_fails": Case(
        "import sys\ndef hook(*a): raise TypeError('h')\nsys.excepthook = hook\nraise ValueError('v')"
    ),
    "interrupted": Case("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT); time.sleep(5)"),
    "interrupt_caught": Case(
        "import os, signal, time\ntry:\n    os.kill(os.getpid(), signal.SIGINT); time.sleep(5)\n"
        "except KeyboardInterrupt:\n    print('caught')"
    ),
    "terminated": Case("import os, signal; os.kill(os.getpid(), signal.SIGTERM)"),
    "killed": Case("import os, signal; print('x'); os.kill(os.getpid(), signal.SIGKILL)"),
    "hung_up": Case("import os, signal; os.kill(os.getpid(), signal.SIGHUP)"),
    "broken_pipe": Case(
        "import os\nr, w = os.pipe(); os.close(r)\ntry: os.write(w, b'x')\nexcept OSError as e: print(e)"
    ),
    "aborted": Case("import faulthandler, os; faulthandler.disable(); os.abort()"),
    "own_handler": Case(
        "import os, signal\nsignal.signal(signal.SIGTERM, lambda *_: print('saved'))\nos.kill(os.getpid(), signal.SIGTERM)"
    ),
    "exit_handlers": Case("import atexit\nfor i in range(3): atexit.register(print, i)\nprint('end')"),
    "exit_handler_fails": Case("import atexit\natexit.register(lambda: 1 / 0)\nprint('end')"),
    "threads_at_the_end": Case(
        "import threading, time\ndef late():\n    time.sleep(0.1); print('late')\nthreading.Thread(target=late).start()\nprint('end')"
    ),
    "daemon_at_the_end": Case(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\nprint('end')"
    ),
    "thread_fails": Case(
        "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='worker'); t.start(); t.join()"
    ),
    "unflushed": Case("f = open('out.txt', 'w'); f.write('x')\nimport atexit, os\nprint('y', end='')"),
    "buffered_output": Case("import sys\nsys.stdout = open(1, 'w', closefd=False)\nprint('kept')"),
    "reconfigured_output": Case("import sys\nsys.stdout.reconfigure(write_through=False)\nprint('kept')"),
    "no_output": Case("import sys; sys.stdout.close()"),
    "large_output": Case("print('z' * 3_000_000)"),
    "bytes": Case(
        "import sys; sys.stdout.buffer.write(bytes(range(256))); print('\\N{SNOWMAN} \\udc80'.encode('utf8', 'replace'))"
    ),
    "warning": Case("import warnings; warnings.warn('old', DeprecationWarning); warnings.warn('new')"),
    "stack": Case(
        "import traceback\ndef f(): return [s.name for s in traceback.extract_stack() if 'script' in s.filename]\nprint(f())"
    ),
    "recursion": Case("def f(): f()\ntry: f()\nexcept RecursionError as e: print(e)"),
    # --- what it imports, and what is pickled
    "beside": Case(SHOW, files=HELPER),
    "shadows_a_loaded_one": Case("import numpy; print(numpy.MINE)", files={"numpy.py": "MINE = 1\n"}),
    "shadows_the_library": Case("import shutil; print(shutil.MINE)", files={"shutil.py": "MINE = 1\n"}),
    "own_launcher": Case("import launcher; print(launcher.MINE)", files={"launcher.py": "MINE = 1\n"}),
    "python_path": Case(
        "import extra; print(extra.A)", files={"more/extra.py": "A = 1\n"}, env={"PYTHONPATH": "more"}
    ),
    "as_module": Case(
        "",
        files={
            "pkg/__init__.py": "",
            "pkg/__main__.py": "import sys\nfrom . import a\nprint(__spec__.name, __package__, sys.argv, a.B)\n",
            "pkg/a.py": "B = 2\n",
        },
        kind="module",
        name="",
        args=("1",),
    ),
    "pickled_main": Case(
        "import pickle\nclass P: pass\np = pickle.loads(pickle.dumps(P())); print(type(p) is P, P.__module__)"
    ),
    "source": Case(
        "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f), inspect.getmodule(f).__name__)"
    ),
    "pool_fork": Case(POOL.format(method="fork")),
    "pool_spawn": Case(POOL.format(method="spawn")),
    "pool_forkserver": Case(POOL.format(method="forkserver")),
    "executor": Case(
        "from concurrent.futures import ProcessPoolExecutor as E\nif __name__ == '__main__':\n"
        "    with E(2) as e: print(list(e.map(abs, [-1, -2])))"
    ),
    "process": Case(
        "import multiprocessing as m; p = m.current_process(); print(p.name, p.daemon, p._parent_pid, m.parent_process())"
    ),
    "start_method": Case(
        "import multiprocessing as m; print(m.get_start_method(allow_none=True), m.get_all_start_methods())"
    ),
    "coroutines": Case(
        "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 1\nprint(asyncio.run(f()))"
    ),
    "subprocess_of_python": Case(
        "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True))"
    ),
    "hash_seed": Case("print(hash('x'))", env={"PYTHONHASHSEED": "7"}),
    "optimized": Case("import sys; print(__debug__, sys.flags.optimize)", env={"PYTHONOPTIMIZE": "1"}),
    "preloaded_library": Case("import os; print(os.environ['LD_BIND_NOW'])", env={"LD_BIND_NOW": "1"}),
    # --- torch and numpy
    "torch_threads": Case(
        "import torch; print(torch.get_num_threads(), torch.get_num_interop_threads())", threads="2"
    ),
    "parallel_info": Case("import torch; print(torch.__config__.parallel_info())", threads="2"),
    "threads_unset": Case("import torch; print(torch.get_num_threads())", threads=""),
    "torch_state": Case(
        "import torch; print(torch.get_default_dtype(), torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled(),\n"
        "    torch.get_default_device(), torch.is_inference_mode_enabled(), torch.get_float32_matmul_precision())"
    ),
    "torch_modules": Case(
        "import torch, sys; print('torch.cuda' in sys.modules, torch.cuda.is_initialized(), torch.cuda._is_in_bad_fork())"
    ),
    "seeded": Case(
        "import torch, random, numpy\ntorch.manual_seed(3); random.seed(3); numpy.random.seed(3)\nprint(torch.rand(2), random.random(), numpy.random.rand())"
    ),
    "matmul": Case(
        "import torch\na = torch.ones(900, 900); print((a @ a).sum().item(), torch.get_num_threads())",
        threads="2",
    ),
    "numpy_matmul": Case("import numpy\na = numpy.ones((900, 900)); print((a @ a).sum())", threads="2"),
    "autograd": Case(
        "import torch\nx = torch.ones(3, requires_grad=True); (x * x).sum().backward(); print(x.grad)"
    ),
    "saved": Case(
        "import torch, io\nclass Net(torch.nn.Linear): pass\nb = io.BytesIO(); torch.save(Net(1, 1), b); b.seek(0)\n"
        "print(type(torch.load(b, weights_only=False)) is Net)"
    ),
    "loader_fork": Case(LOADER.format(method="fork")),
    "loader_spawn": Case(LOADER.format(method="spawn")),
    "loader_forkserver": Case(LOADER.format(method="forkserver")),
    "different_noise": Case(
        TOGETHER.format(
            body="import random, numpy\n"
            "mine = torch.tensor([torch.rand(1).item(), random.random(), numpy.random.rand(), hash(os.urandom(8))])\n"
            "all_ = [torch.empty_like(mine) for _ in range(2)]; dist.all_gather(all_, mine)\n"
            "print((all_[0] == all_[1]).tolist())"
        ),
        ranks=2,
    ),
    "all_reduce": Case(
        TOGETHER.format(body="x = torch.ones(1) * rank; dist.all_reduce(x); print(x.item())"), ranks=2
    ),
    "parallel": Case(
        TOGETHER.format(
            body="torch.manual_seed(0); net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))\n"
            "net(torch.ones(2, 4) * rank).sum().backward(); print(net.module.weight.grad)"
        ),
        ranks=2,
        threads="2",
    ),
}
