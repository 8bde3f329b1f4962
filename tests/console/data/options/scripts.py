"""Scripts as people write them: the files of each, and none of them can be imported without harm."""

from __future__ import annotations

IMAGENET = """
import argparse
import os
import torchvision.models as models

model_names = sorted(name for name in models.__dict__ if name.islower())
BATCH = 8 * 32

parser = argparse.ArgumentParser(description='training of an image classifier')
parser.add_argument('data', metavar='DIR', nargs='?', default='imagenet', help='path of the images')
parser.add_argument('-a', '--arch', metavar='ARCH', default='resnet18', choices=model_names,
                    help='model: ' + ' | '.join(model_names))
parser.add_argument('-b', '--batch-size', default=BATCH, type=int, metavar='N', help='of all GPUs')
parser.add_argument('--lr', '--learning-rate', default=1e-1, type=float, dest='lr')
parser.add_argument('--workers', type=int, default=os.cpu_count())
parser.add_argument('--steps', type=int, nargs='+', default=[30, 60, 90])
parser.add_argument('--tag', action='append', help='may be given again')
parser.add_argument('--seed', default=None, type=int)
parser.add_argument('-e', '--evaluate', dest='evaluate', action='store_true')
parser.add_argument('--no-cuda', dest='cuda', action='store_false')
parser.add_argument('--compile', action=argparse.BooleanOptionalAction, default=True)
parser.add_argument('-v', '--verbose', action='count', default=0)
parser.add_argument('--amp', type=bool, default=False)
either = parser.add_mutually_exclusive_group()
either.add_argument('--fp16', action='store_true')
either.add_argument('--bf16', action='store_true')

def main():
    args = parser.parse_args()
    raise SystemExit('imported')

main()
"""

NANOGPT = """
batch_size = 12
config_keys = [k for k, v in globals().items() if isinstance(v, (int, float, bool, str))]
exec(open('configurator.py').read())
raise SystemExit('imported')
"""

HF = '''
from dataclasses import dataclass, field
from enum import Enum
from typing import Optional
from transformers import HfArgumentParser, TrainingArguments

class Task(Enum):
    COLA = "cola"
    MNLI = "mnli"

@dataclass
class Common:
    seed: int = 42

@dataclass
class ModelArguments(Common):
    """What is tuned."""
    model_name_or_path: str = field(metadata={"help": "a folder, or a name on the hub"})
    use_fast: bool = field(default=True, metadata={"help": "the fast tokenizer"})
    freeze: bool = False
    token: Optional[str] = None

@dataclass
class DataArguments:
    task: Task = Task.COLA
    max_len: Optional[int] = field(default=128, metadata={"help": "tokens"})
    layers: list[int] = field(default_factory=lambda: [1, 2])
    split: str = field(default="train", metadata={"choices": ["train", "all"]})

def main():
    parser = HfArgumentParser((ModelArguments, DataArguments, TrainingArguments))
    model, data, training = parser.parse_args_into_dataclasses()

raise SystemExit('imported')
'''

SUBCOMMANDS = """
import argparse

def common():
    parent = argparse.ArgumentParser(add_help=False)
    parent.add_argument('--seed', type=int, default=1)
    return parent

def add_training(parser):
    group = parser.add_argument_group('training', 'how to train')
    group.add_argument('--epochs', type=int, default=3)
    group.add_argument('--opt', choices=('adam', 'sgd'), default='adam')

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--debug', action='store_true')
    commands = parser.add_subparsers(dest='mode', required=True, help='what to do')
    train = commands.add_parser('train', parents=[common()])
    add_training(train)
    evaluate = commands.add_parser('eval', parents=[common()])
    evaluate.add_argument('checkpoint')
    args, rest = parser.parse_known_args()

if __name__ == '__main__':
    main()
raise SystemExit('imported')
"""

ELSEWHERE = """
from args import get_parser
import settings.more as more

parser = get_parser()
more.add_to(parser)
args = parser.parse_args()
"""
ELSEWHERE_ARGS = """
import argparse
from names import MODELS

class Options(argparse.ArgumentParser):
    pass

def get_parser():
    p = argparse.ArgumentParser()
    p.add_argument('--model', choices=MODELS.keys(), default=list(MODELS)[0])
    return p
"""

CLICK = """
import click

WIDTHS = (32, 64)

@click.command()
@click.option('--lr', default=0.1, show_default=True, help='rate')
@click.option('--opt', type=click.Choice(['adam', 'sgd']), default='adam')
@click.option('--amp/--no-amp', default=True)
@click.option('-q', '--quiet', is_flag=True)
@click.option('--width', 'widths', multiple=True, type=int, default=WIDTHS)
@click.option('--size', nargs=2, type=int)
@click.option('-v', '--verbose', count=True)
@click.option('--secret', hidden=True)
@click.argument('data', type=click.Path(exists=True))
@click.argument('more', nargs=-1)
def main(**options): ...
main()
"""

CLICK_GROUP = """
import click

@click.group()
@click.option('--debug', is_flag=True)
def cli(debug): ...

@cli.command('train')
@click.option('--lr', type=float, required=True)
def train_it(lr):
    '''Trains a model.'''

@cli.command()
@click.argument('checkpoint')
def eval_model(checkpoint): ...
"""

TYPER = """
import typer
from enum import Enum
from pathlib import Path
from typing import Annotated, List, Optional

class Opt(str, Enum):
    adam = "adam"
    sgd = "sgd"

def main(
    data: Annotated[Path, typer.Argument(help="images")],
    lr: Annotated[float, typer.Option("--lr", "-l", help="rate", min=0)] = 0.1,
    opt: Opt = Opt.adam,
    amp: bool = False,
    force: Annotated[bool, typer.Option("--force")] = False,
    tags: Annotated[Optional[List[str]], typer.Option(help="again and again")] = None,
    steps: int = typer.Option(100, help="how many"),
    name: str = typer.Option(..., "--name"),
    out: str = typer.Argument("runs"),
): ...

typer.run(main)
"""

TYPER_APP = """
import typer
app = typer.Typer()

@app.command()
def train(lr: float = 0.1): ...

@app.command("evaluate")
def ev(checkpoint: str, strict: bool = True): ...

app()
"""

SIMPLE = """
from dataclasses import dataclass, field
from simple_parsing import ArgumentParser

@dataclass
class Optim:
    lr: float = 0.1  # learning rate
    decay: float = 0.0
    \"\"\"how much the weights shrink\"\"\"

@dataclass
class Options:
    \"\"\"All of it.

    Args:
        epochs: how often
            the data is seen
    \"\"\"
    epochs: int = 3
    optim: Optim = field(default_factory=Optim)
    debug: bool = False

parser = ArgumentParser()
parser.add_arguments(Options, dest="options")
args = parser.parse_args()
"""

TYRO = """
import tyro
from dataclasses import dataclass, field
from typing import Literal

@dataclass
class Optim:
    lr: float = 0.1
    inner: "Config | None" = None

@dataclass
class Config:
    name: str
    optim: Optim = field(default_factory=Optim)
    use_amp: bool = True
    opt_kind: Literal["adam", "sgd"] = "adam"
    betas: tuple[float, float] = (0.9, 0.999)
    layers: tuple[int, ...] = (1, 2)

config = tyro.cli(Config)
"""

LIGHTNING = '''
from lightning.pytorch.cli import LightningCLI
import lightning as L

class Model(L.LightningModule):
    def __init__(self, lr: float = 0.1, width: int = 64, compile: bool = False):
        """A model.

        Args:
            lr: the rate
        """

class Data(L.LightningDataModule):
    def __init__(self, root: str, batch_size: int = 32): ...

def main():
    LightningCLI(Model, Data)
'''

PYRALLIS = """
import pyrallis
from dataclasses import dataclass, field

@dataclass
class Inner:
    dim: int = 3
    names: list[str] = field(default_factory=list)

@dataclass
class Config:
    lr: float = 0.1
    inner: Inner = field(default_factory=Inner)
    debug: bool = False

@pyrallis.wrap()
def main(cfg: Config): ...
"""

FIRE = """
import fire

def train(data: str, lr: float = 0.1, epochs=3, amp: bool = False):
    \"\"\"Trains.

    Parameters
    ----------
    data : str
        the images
    lr : float
        the rate
    \"\"\"

fire.Fire(train)
"""

HYDRA = """
import hydra
from omegaconf import DictConfig

@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg: DictConfig) -> None:
    raise SystemExit('imported')

main()
"""
HYDRA_CONFIG = """
defaults:
  - model: small  # which network
  - optional data: null
  - override hydra/launcher: basic
  - _self_

seed: 1  # of everything
name: ???
out: ${hydra:runtime.output_dir}/x
note: "a # b"
amp: true
rate: 1e-4
layers: [1, 2]
betas:
  - 0.9
  - 0.99
trainer:
  epochs: 3
  clip: null
  plan: |
    several
    lines
hydra:
  run:
    dir: x
"""

HYDRA_STORED = """
import hydra
from dataclasses import dataclass, field
from hydra.core.config_store import ConfigStore
from omegaconf import MISSING

@dataclass
class Optim:
    lr: float = 0.1

@dataclass
class Config:
    name: str = MISSING
    debug: bool = False
    optim: Optim = field(default_factory=Optim)

ConfigStore.instance().store(name="config", node=Config)

@hydra.main(version_base=None, config_name="config")
def main(cfg: Config) -> None: ...
"""

FILES: dict[str, dict[str, str]] = {
    "imagenet": {"train.py": IMAGENET},
    "nanogpt": {"train.py": NANOGPT},
    "hf": {"train.py": HF},
    "subcommands": {"train.py": SUBCOMMANDS},
    "elsewhere": {
        "train.py": ELSEWHERE,
        "args.py": ELSEWHERE_ARGS,
        "names.py": "MODELS = {'small': make_small, 'large': make_large}",
        "settings/__init__.py": "",
        "settings/more.py": "def add_to(parser):\n    parser.add_argument('--depth', type=int)\n",
    },
    "click": {"train.py": CLICK},
    "click_group": {"train.py": CLICK_GROUP},
    "typer": {"train.py": TYPER},
    "typer_app": {"train.py": TYPER_APP},
    "simple": {"train.py": SIMPLE},
    "tyro": {"train.py": TYRO},
    "lightning": {"train.py": LIGHTNING},
    "pyrallis": {"train.py": PYRALLIS},
    "fire": {"train.py": FIRE},
    "hydra": {
        "train.py": HYDRA,
        "conf/config.yaml": HYDRA_CONFIG,
        "conf/model/small.yaml": "width: 64\nact: relu\n",
        "conf/model/large.yaml": "width: 512\n",
        "conf/data/cifar.yaml": "# @package _global_\nroot: /data\n",
    },
    "hydra_stored": {"train.py": HYDRA_STORED},
}
