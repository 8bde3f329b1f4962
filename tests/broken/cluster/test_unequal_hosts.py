"""Hosts that are not alike: another Python, another torch, another time of day, another set of modules."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import bare_python
from tests.broken.cluster.conftest import Hosts

pytestmark = [pytest.mark.spark, pytest.mark.netns, pytest.mark.timeout(240)]

NEWER = """
from torch.nn.attention.varlen import varlen_attn
import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()
"""


@pytest.fixture(scope="session")
def older_torch(hosts: Hosts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python whose torch calls itself 2.4.1, and lacks a module that came later: a shim of the one here."""
    python = bare_python.make(tmp_path_factory.mktemp("older") / "venv")
    site = next(python.parents[1].glob("lib/*/site-packages"))
    place = site / "torch"
    whole = place.resolve()
    _instead_of_link(place)
    _instead_of_link(place / "nn")
    _instead_of_link(place / "nn" / "attention")
    (place / "nn" / "attention" / "varlen.py").unlink()
    version = (whole / "version.py").read_text().splitlines()
    (place / "version.py").unlink()
    told = ["__version__ = '2.4.1'" if line.startswith("__version__") else line for line in version]
    (place / "version.py").write_text("\n".join(told))
    _rename(next(site.glob("torch-*.dist-info")))
    return python


def _instead_of_link(folder: Path) -> None:
    """Make a folder of links to all that is in the one to which it is a link."""
    whole = folder.resolve()
    folder.unlink()
    folder.mkdir()
    for each in whole.iterdir():
        if each.name != "__pycache__":
            (folder / each.name).symlink_to(each)


def _rename(record: Path) -> None:
    """Let the record of a distribution tell another version."""
    whole = record.resolve()
    record.unlink()
    own = record.with_name("torch-2.4.1.dist-info")
    shutil.copytree(whole, own)
    lines = (own / "METADATA").read_text().splitlines()
    told = ["Version: 2.4.1" if line.startswith("Version:") else line for line in lines]
    (own / "METADATA").write_text("\n".join(told))


def test_an_older_torch_on_one_host(
    hosts: Hosts, older_torch: Path, tmp_path: Path, script: Callable[[str], str]
) -> None:
    hosts.set_python(1, older_torch)
    run = hosts.run(tmp_path, script(NEWER))

    assert 1 == run.code
    run.has(
        "version-skew",
        "certain",
        "it has no torch.nn.attention.varlen",
        "2.4.1 on 10.77.0.12",
        "spark.archives",
    )


@pytest.fixture(scope="session")
def newer_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another version of Python, which has Spark."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}."
    others = sorted(Path(sys.base_prefix).parent.glob("3.*/bin/python3"))
    found = next((each for each in others if not each.parents[1].name.startswith(own)), None)
    if found is None:
        pytest.skip("needs another version of Python beside this one")
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    python = tmp_path_factory.mktemp("newer") / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="{Path(spec.origin).parents[1]}:$PYTHONPATH" exec {found} "$@"\n'
    )
    python.chmod(0o755)
    return python


def test_another_python_on_one_host(
    hosts: Hosts, newer_python: Path, tmp_path: Path, script: Callable[[str], str]
) -> None:
    hosts.set_python(1, newer_python)
    run = hosts.run(tmp_path, script("print('go')\n"))

    assert 69 == run.code
    run.has(
        "version-skew", "certain", "the executors' Python is", "Spark refuses to mix them", "PYSPARK_PYTHON"
    )


TLS = """
import datetime as dt
import os
import socket
import ssl

import torch.distributed as dist

FIRST = os.environ["RANKDECK_TEST_HOST"] == "0"


def certificate():
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "store")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + dt.timedelta(hours=1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("store")]), False)
    pem = serialization.Encoding.PEM
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return made.sign(key, hashes.SHA256()).public_bytes(pem).decode(), key.private_bytes(pem, *plain).decode()


dist.init_process_group("gloo")
told = [None]
if FIRST:
    public, private = certificate()
    with open("both.pem", "w") as file:
        file.write(public + private)
    server = socket.create_server(("", 0))
    told = [(os.environ["HOST"], server.getsockname()[1], public)]
source = 0 if FIRST == (dist.get_rank() == 0) else 1
dist.broadcast_object_list(told, source)
address, port, public = told[0]
if FIRST:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("both.pem")
    connection, _ = server.accept()
    try:
        context.wrap_socket(connection, server_side=True).recv(1)
    except ssl.SSLError:
        pass
else:
    context = ssl.create_default_context(cadata=public)
    with context.wrap_socket(socket.create_connection((address, port)), server_hostname="store") as client:
        client.send(b"x")
dist.barrier()
"""


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-7200, "7200.0 s behind that of 10.77.0.11"), (86400, "86400.0 s ahead of that of 10.77.0.11")],
)
def test_a_host_whose_clock_is_wrong(
    hosts: Hosts, tmp_path: Path, script: Callable[[str], str], seconds: int, words: str
) -> None:
    """One host makes a certificate, the other one checks it."""
    hosts.clock.set(seconds)
    run = hosts.run(tmp_path, script(TLS), "--env", f"HOST={hosts.cluster.host(0)}")

    assert 1 == run.code
    run.has("clock-skew", "likely", words, "chronyc makestep")
    assert run.cause is not None
    assert run.state.ranks[run.cause.rank or 0].host == hosts.cluster.host(1)


def test_a_module_that_executors_lack(hosts: Hosts, tmp_path: Path, script: Callable[[str], str]) -> None:
    """The remedy is one: with it, the same run succeeds."""
    module = hosts.absent / "helpers.py"
    module.write_text("FACTOR = 3\n")
    train = script("import helpers\nprint(helpers.FACTOR)\n")
    here = {"PYTHONPATH": str(hosts.absent)}
    run = hosts.run(tmp_path, train, env=here)

    assert 1 == run.code
    run.has(
        "module-missing-on-executors", "certain", f"--py-files {module}", str(module), "this machine has it"
    )
    assert 0 == hosts.run(tmp_path, train, "--py-files", module, env=here).code
