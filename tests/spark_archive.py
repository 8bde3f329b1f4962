"""Spark's classes, loaded and verified once for all JVMs of the tests: the JVM's class data sharing.

A JVM of Spark spends most of its start on loading some ten thousand classes. One of the tests' JVMs dumps
them as it ends (``-XX:ArchiveClassesAtExit``); all others map that file, and start in half of the time.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent.parent / ".pytest_cache" / "spark"
_LIMIT_S = 240.0
_QUIET = "-Xlog:disable"  # a JVM with another class path goes without the archive, and warns on its stdout
_PROGRAM = """
import sys
from pyspark.sql import SparkSession
settings = {
    "spark.driver.extraJavaOptions": sys.argv[1], "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.port": "0",
}
builder = SparkSession.builder.master("local-cluster[1,1,512]")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
assert spark.sparkContext.parallelize([1, 2], 1).barrier().mapPartitions(list).sum() == 3
assert spark.range(10).count() == 10
gateway = spark.sparkContext._gateway
spark.stop()
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()
"""


def class_path(spark_home: Path) -> str:
    """The class path of ``spark-submit``, which an archive is bound to."""
    (slf4j,) = spark_home.joinpath("jars").glob("slf4j-api-*.jar")
    return f"{spark_home / 'conf'}:{slf4j}:{spark_home / 'jars' / '*'}"


@cache
def archive_options(spark_home: Path, java: str, options: Sequence[str]) -> tuple[str, ...]:
    """The options by which a JVM with these options uses the archive; none where it cannot be made."""
    version = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    key = hashlib.sha256("\n".join([version, str(spark_home), *options]).encode()).hexdigest()[:16]
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{key}.jsa"
    with open(FOLDER / f"{key}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of the test processes that run side by side, one makes it
        if not path.exists():
            _make(path, options)
    return (f"-XX:SharedArchiveFile={path}", _QUIET) if path.exists() else ()


def _make(path: Path, options: Sequence[str]) -> None:
    """Dump the archive; a JVM without this feature leaves none."""
    made = path.with_suffix(".new")
    words = " ".join([*options, f"-XX:ArchiveClassesAtExit={made}", _QUIET])
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    subprocess.run(
        [sys.executable, "-c", _PROGRAM, words],
        env=clean | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        timeout=_LIMIT_S,
        check=False,
    )
    if made.exists():
        made.rename(path)
