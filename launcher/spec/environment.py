"""Which of the caller's environment variables ranks on other hosts get.

On this machine ranks inherit all of them. On another host most of them would be wrong there: paths, names of
network interfaces, the place of a rank in another gang. So only those that configure training travel, or,
with ``--env-all``, all that do not belong to a host. ``--env`` adds any variable, whatever its name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .job import JobSpec
    from .request import Request

CARRIED = (
    "HF_*",
    "HUGGINGFACE_*",
    "TRANSFORMERS_*",
    "DATASETS_*",
    "DIFFUSERS_*",
    "ACCELERATE_*",
    "TOKENIZERS_*",
    "TORCH_*",
    "TORCHINDUCTOR_*",
    "TORCHDYNAMO_*",
    "PYTORCH_*",
    "TRITON_*",
    "CUDA_LAUNCH_BLOCKING",
    "CUBLAS_*",
    "CUDNN_*",
    "NCCL_*",
    "RCCL_*",
    "GLOO_*",
    "UCX_*",
    "OMP_*",
    "MKL_*",
    "KMP_*",
    "OPENBLAS_*",
    "NUMEXPR_*",
    "TF_*",
    "XLA_*",
    "KERAS_*",
    "JAX_*",
    "DEEPSPEED_*",
    "DS_*",
    "LIGHTNING_*",
    "PL_*",
    "HOROVOD_*",
    "WANDB_*",
    "MLFLOW_*",
    "COMET_*",
    "NEPTUNE_*",
    "CLEARML_*",
    "HYDRA_*",
    "PYTHONHASHSEED",
    "PYTHONWARNINGS",
    "PYTHONFAULTHANDLER",
)
"""Names of variables that travel; ``*`` stands for the rest of a name."""

_RENDEZVOUS = (
    "MASTER_*",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_*",
    "GROUP_*",
    "ROLE_*",
    "NODE_RANK",
    "CROSS_*",
    "TORCHELASTIC_*",
    "PET_*",
    "NCCL_COMM_ID",
    "TF_CONFIG",
    "HOROVOD_RANK",
    "HOROVOD_SIZE",
    "HOROVOD_LOCAL_*",
    "HOROVOD_CROSS_*",
    "HOROVOD_GLOO_*",
    "HOROVOD_HOSTNAME",
    "HOROVOD_CONTROLLER",
    "OMPI_*",
    "PMI_*",
    "PMIX_*",
    "SLURM_*",
    "RANKDECK_*",
)
_DEVICES = (
    "*_IFNAME",
    "*_IFACE",
    "NCCL_IB_HCA",
    "UCX_NET_DEVICES",
    "*_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "NCCL_TOPO_*",
    "NCCL_HOSTID",
)
_HOST = (
    "_",
    "*PATH",
    "*HOME",
    "BASH*",
    "COLORTERM",
    "COLUMNS",
    "CONDA_*",
    "CUDA_HOME",
    "DBUS_*",
    "DISPLAY",
    "GPG_*",
    "HADOOP_*",
    "HOST*",
    "KRB5*",
    "KUBERNETES_*",
    "LINES",
    "LOGNAME",
    "LS_COLORS",
    "MAIL",
    "*PWD",
    "*PROMPT*",
    "PS1",
    "PYSPARK_*",
    "SHELL",
    "SHLVL",
    "SPARK_*",
    "SSH_*",
    "STY",
    "SUDO_*",
    "TEMP",
    "TERM*",
    "TMP*",
    "USER*",
    "VIRTUAL_ENV*",
    "WAYLAND_*",
    "WINDOWID",
    "XAUTHORITY",
    "XDG_*",
    "YARN_*",
)
_URL = re.compile(r"([A-Za-z][\w+.-]*)://")
_FILE_SCHEMES = ("file", "sqlite")


def carried_environ(environ: Mapping[str, str], *, everything: bool = False) -> dict[str, str]:
    """The variables of the caller that ranks on other hosts get too, sorted by name.

    Left out are the rendezvous of another gang, names of network interfaces and devices, and values that are
    paths: they mean something on their host only.

    Args:
        environ: the caller's environment.
        everything: whether all travel that do not belong to a host, and not only those of `CARRIED`.
    """
    return {
        name: environ[name]
        for name in sorted(environ)
        if (everything or _CARRIED.fullmatch(name))
        and not _OF_A_HOST.fullmatch(name)
        and not (everything and _OF_THIS_HOST.fullmatch(name))
        and not _is_path(environ[name])
    }


def carried_by(request: Request) -> dict[str, str]:
    """The caller's variables that a request takes to other hosts; empty if its ranks inherit all of them.

    What the request sets for executors in general stands above what the caller merely has.
    """
    spec = request.spec
    if spec.mode.traits.inherits:
        return {}
    carried, set_already = carried_environ(request.environ, everything=spec.env_all), of_executors(spec)
    return {name: value for name, value in carried.items() if name not in set_already}


_EXECUTOR = "spark.executorEnv."


def of_executors(spec: JobSpec) -> dict[str, str]:
    """The variables that a request's Spark settings give to executors."""
    conf = spec.spark.conf.items()
    return {key.removeprefix(_EXECUTOR): value for key, value in conf if key.startswith(_EXECUTOR)}


def _matcher(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(name).replace(r"\*", ".*") for name in names), re.DOTALL)


_CARRIED = _matcher(CARRIED)
_OF_A_HOST = _matcher((*_RENDEZVOUS, *_DEVICES))
_OF_THIS_HOST = _matcher(_HOST)


def _is_path(value: str) -> bool:
    """Whether a value names a file of this host: a path, a list of paths, or a URL of a file."""
    if url := _URL.match(value):
        return url[1].lower() in _FILE_SCHEMES
    return any(part.startswith(("/", "~")) for part in value.split(os.pathsep))
