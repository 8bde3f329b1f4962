"""What accelerate itself makes of a command line: run by the ranks' interpreter, and no part of the console.

``python -c <this> WORDS`` prints one line of JSON, which `answer` fills in. The options are parsed, and the
variables of the ranks made, by accelerate's own functions, so that they are those of the version that the
ranks import. Nothing is launched.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from typing import Any

NOT_VARIABLES = ("MASTER_ADDR", "MASTER_PORT")


class Refused(Exception):
    """Accelerate's parser refuses the line."""


def main(words: list[str]) -> dict[str, Any]:
    """The answer for a line; `error` says why there is none, `missing` why there is no accelerate."""
    try:
        from accelerate.commands import launch
        from accelerate.utils import prepare_simple_launcher_cmd_env  # noqa: F401
    except ImportError as error:
        return {"missing": str(error)}
    found: dict[str, Any] = {}
    try:
        answer(launch, words, found)
    except Refused as error:
        found["error"] = str(error)
    except Exception as error:  # noqa: BLE001  # of any kind, for a file of another form
        found["error"] = str(error) or type(error).__name__
        if file := found.get("read"):
            found |= {"file": file, "error": reason(file, error)}
    return found


def answer(launch: Any, words: list[str], found: dict[str, Any]) -> None:
    """Fill in what the line says, what its configuration file adds to it, and the variables of the ranks."""
    parser = launch.launch_command_parser()
    parser.error = refuse
    parser.print_help = lambda *_: found.update(help=True)
    try:
        args = parser.parse_args(words)
    except SystemExit:
        return
    found["said"] = said(parser, args)
    counted = args.num_processes is not None
    default = getattr(launch, "default_config_file", "")
    found["read"] = args.config_file or (default if os.path.isfile(default) and not args.cpu else "")
    args, defaults, precision_of_file = launch._validate_launch_command(args)  # noqa: SLF001
    require_numbers(args, defaults)
    found.pop("read")
    found |= {
        "counted": counted or defaults is not None,
        "processes": 0 if not counted and args.num_processes == -1 else args.num_processes or 0,
        "machines": args.num_machines or 1,
        "machine": int(args.machine_rank or 0),
        "module": bool(args.module),
        "no_python": bool(args.no_python),
        "script": args.training_script,
        "args": args.training_script_args,
        "restarts": args.max_restarts,
        "launcher": launcher(args, defaults),
    }
    if found["launcher"] in ("simple", "distributed", "deepspeed"):
        found["environ"] = environ(launch, args, defaults, found["launcher"], precision_of_file)


NUMBERS = ("num_processes", "num_machines", "machine_rank")


def require_numbers(args: Namespace, defaults: Any) -> None:
    """Make whole numbers of what should be some; a file may say anything.

    Raises:
        ValueError: one is none.
    """
    for name in NUMBERS:
        for holder in (defaults, args):
            value = getattr(holder, name, None)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, str)) or not is_whole(value):
                raise ValueError(f"{name} must be a whole number, not {value!r:.200}")
            setattr(holder, name, int(value))


def is_whole(value: int | str) -> bool:
    """Whether a value is a whole number, or its text."""
    try:
        int(value)
    except ValueError:
        return False
    return True


def reason(file: str, error: Exception) -> str:
    """Why a configuration file cannot be used: it holds no table, or what accelerate raised."""
    try:
        import yaml  # type: ignore[import-untyped, unused-ignore]

        with open(file) as text:
            if not isinstance(yaml.safe_load(text), dict):
                return "it holds no table"
    except Exception:  # noqa: BLE001  # what accelerate says of it is told
        pass
    return str(error) or type(error).__name__


def refuse(message: str) -> None:
    """Accelerate's parser calls this for a wrong line."""
    raise Refused(message)


def said(parser: Any, args: Namespace) -> list[str]:
    """The options that are given, by their first long names."""
    given: set[str] = getattr(args, "nondefault", set())
    return [
        next((name for name in action.option_strings if name.startswith("--")), action.option_strings[0])
        for action in parser._actions  # noqa: SLF001
        if action.option_strings and hasattr(args, action.dest)
        if is_said(action, getattr(args, action.dest), action.dest in given, parser.get_default(action.dest))
    ]


def is_said(action: Any, value: Any, given: bool, default: Any) -> bool:
    """Whether an option is given; of two that switch the same value, the one that has set it."""
    return given or (value != default and action.const in (None, value))


def launcher(args: Namespace, defaults: Any) -> str:
    """Which of accelerate's launchers the line means, in the order in which it tries them itself."""
    if not args.cpu:
        if args.use_deepspeed:
            return "deepspeed"
        if args.use_fsdp or args.use_megatron_lm or args.multi_gpu:
            return "distributed"
        if args.tpu:
            return "tpu"
    environment = getattr(defaults, "compute_environment", None)
    return "sagemaker" if getattr(environment, "value", environment) == "AMAZON_SAGEMAKER" else "simple"


def environ(
    launch: Any, args: Namespace, defaults: Any, kind: str, precision_of_file: bool
) -> dict[str, str]:
    """The variables that accelerate adds to those of this process, but for where its processes meet."""
    args.num_machines, args.machine_rank, args.main_process_port = 1, 0, 0
    if kind == "deepspeed":
        fields = [*(defaults.deepspeed_config if defaults else ())]
        fields += ["mixed_precision"] * precision_of_file
        args.deepspeed_fields_from_accelerate_config = ",".join(fields)
        made = launch.prepare_deepspeed_cmd_env(args)[1]
    elif kind == "distributed":
        made = launch.prepare_multi_gpu_env(args)
    else:
        made = launch.prepare_simple_launcher_cmd_env(args)[1]
    if kind != "simple" and not launch.check_cuda_p2p_ib_support():
        made = {"NCCL_P2P_DISABLE": "1", "NCCL_IB_DISABLE": "1", **made}
    return {
        name: str(text)
        for name, text in made.items()
        if os.environ.get(name) != text and name not in NOT_VARIABLES
    }


if __name__ == "__main__":
    out, sys.stdout = sys.stdout, sys.stderr  # what accelerate prints is not the answer
    answered = main(sys.argv[1:])
    json.dump(answered, out)
