"""What a rank has of the one who launched it, as one JSON line."""

import json
import os
import resource
import signal
import sys
from pathlib import Path

umask = os.umask(0)
os.umask(umask)
print(
    json.dumps(
        {
            "flavour": os.environ.get("FLAVOUR"),
            "only_engine": os.environ.get("ONLY_ENGINE"),
            "folder": os.getcwd(),
            "umask": umask,
            "descriptors": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
            "cores": sorted(os.sched_getaffinity(0)),
            "nice": os.nice(0),
            "python": sys.executable,
            "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
            "hangup": signal.getsignal(signal.SIGHUP) is signal.SIG_DFL,
            "mask": [int(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
            "written": Path(sys.argv[1]).write_text("x") and os.stat(sys.argv[1]).st_mode & 0o777,
        }
    )
)
