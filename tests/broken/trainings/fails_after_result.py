# ranks: 2
# function: train
# cause: failed-after-result
# remedy: exit handlers

"""A library's exit handler ends the process with 1 after the training has returned."""

import atexit
import os


def train():
    atexit.register(os._exit, 3)
    return 0.5
