"""A module whose import never ends."""

import threading

threading.Event().wait()


def train() -> None:
    """Never reached."""
