"""Which of the caller's variables travel to other hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

import console
from launcher.spec.environment import CARRIED, carried_environ


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_TOKEN", "hf_abc"),
        ("TF_USE_LEGACY_KERAS", "1"),
        ("KERAS_BACKEND", "torch"),
        ("NCCL_DEBUG", "INFO"),
        ("NCCL_IB_DISABLE", "1"),
        ("OMP_NUM_THREADS", "4"),
        ("TORCH_DISTRIBUTED_DEBUG", "DETAIL"),
        ("WANDB_MODE", "offline"),
        ("MLFLOW_TRACKING_URI", "https://tracking.example:5000/api"),
        ("DEEPSPEED_LOG_LEVEL", "info"),
        ("PYTHONHASHSEED", "0"),
        ("HF_DATASETS_OFFLINE", ""),
    ],
)
def test_what_configures_training_travels(name: str, value: str) -> None:
    assert {name: value} == carried_environ({name: value, "PATH": "/bin", "FOO": "1"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_HOME", "/home/me/.cache/huggingface"),
        ("TORCH_HOME", "~/.cache/torch"),
        ("MLFLOW_TRACKING_URI", "file:///home/me/mlruns"),
        ("MLFLOW_TRACKING_URI", "sqlite:////home/me/mlflow.db"),
        ("TRANSFORMERS_CACHE", "relative:/absolute"),
        ("NCCL_SOCKET_IFNAME", "eth0"),
        ("GLOO_SOCKET_IFNAME", "eth0"),
        ("HOROVOD_GLOO_IFACE", "eth0"),
        ("NCCL_IB_HCA", "mlx5_0"),
        ("NCCL_COMM_ID", "10.0.0.1:4000"),
        ("TF_CONFIG", "{}"),
        ("HOROVOD_RANK", "3"),
        ("MASTER_ADDR", "10.0.0.1"),
        ("WORLD_SIZE", "8"),
        ("TORCHELASTIC_RUN_ID", "x"),
        ("CUDA_VISIBLE_DEVICES", "3"),
        ("RANKDECK_HOME", "x"),
    ],
)
@pytest.mark.parametrize("everything", [False, True])
def test_what_belongs_to_a_host_or_a_gang_stays(name: str, value: str, *, everything: bool) -> None:
    assert {} == carried_environ({name: value}, everything=everything)


def test_everything_leaves_out_what_belongs_to_a_host_and_no_more() -> None:
    mine = {"FOO": "1", "DATA_BUCKET": "s3://bucket/data", "LANG": "C.UTF-8", "AWS_REGION": "eu"}
    hosts = dict.fromkeys(
        ("HOME", "PATH", "PWD", "OLDPWD", "TERM", "SSH_TTY", "SPARK_HOME", "PYSPARK_PYTHON", "USER", "_"), "x"
    )
    assert mine == carried_environ(mine | hosts, everything=True)
    assert {} == carried_environ(mine | hosts)


def test_the_variables_are_sorted_by_name() -> None:
    assert ["HF_A", "NCCL_B"] == list(carried_environ({"NCCL_B": "1", "HF_A": "1"}))


def test_the_manual_lists_what_travels() -> None:
    text = (Path(console.__file__).parent / "manual" / "cluster.md").read_text()
    assert [] == [name for name in CARRIED if f"`{name}`" not in text]
