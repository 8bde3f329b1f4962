"""``python -m console`` is ``rankdeck``."""

from console.cli import main

main()
