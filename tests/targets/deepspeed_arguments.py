"""What a script for DeepSpeed makes of its arguments; DeepSpeed itself is not needed for that."""

from __future__ import annotations

import argparse
import json


def parse() -> dict[str, object]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.0)
    parser.add_argument("--local_rank", type=int, default=-1)
    parser.add_argument("--deepspeed", action="store_true")
    parser.add_argument("--deepspeed_config", default="")
    given = parser.parse_args()
    if given.deepspeed_config:
        with open(given.deepspeed_config) as file:
            config = json.load(file)
    else:
        config = None
    return {"lr": given.lr, "deepspeed": given.deepspeed, "config": config}


if __name__ == "__main__":
    print(json.dumps(parse()), flush=True)
