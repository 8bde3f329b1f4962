"""An engine's log: private, bounded, and where all that is printed goes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

CODE = """
import logging, os, sys
from pathlib import Path
from launcher.engine import daemon

daemon.log_to(Path(sys.argv[1]))
daemon._detach()
for number in range(6000):
    logging.getLogger("rankdeck.engine").info("%d %s", number, "x" * 1000)
os.write(1, b"printed\\n")
os.write(2, b"complained\\n")
"""


def test_the_log_is_turned_and_what_is_printed_follows_it(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "engine.log"
    done = subprocess.run([sys.executable, "-c", CODE, str(log)], capture_output=True, check=True)

    assert (b"up\n", b"") == (done.stdout, done.stderr)
    files = sorted(log.parent.iterdir())
    assert ["engine.log", "engine.log.1", "engine.log.2", "engine.log.3"] == [file.name for file in files]
    assert {0o600} == {file.stat().st_mode & 0o777 for file in files}
    assert 0o700 == log.parent.stat().st_mode & 0o777
    assert max(file.stat().st_size for file in files) <= 1 << 20
    assert log.read_bytes().endswith(b"x\nprinted\ncomplained\n")
    numbers = [int(line.split()[2]) for file in reversed(files[1:]) for line in file.read_text().splitlines()]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
