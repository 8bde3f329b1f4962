# ranks: 1
# function: train
# cause: unpicklable-result
# says: history.lock
# remedy: no locks

"""The returned object holds a lock."""

import threading


class History:
    def __init__(self):
        self.losses = [1.0]
        self.lock = threading.Lock()


class Fit:
    def __init__(self):
        self.history = History()


def train():
    return Fit()
