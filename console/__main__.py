"""``rankdeck``, and ``python -m console``: what takes longest is begun before anything else is imported."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command and exit with its code."""
    if sys.argv[1:2] == ["run"]:
        from launcher.engine import head_start

        head_start.begin(sys.argv[1:])
    from .cli.main import main as run

    run()


if __name__ == "__main__":
    main()
