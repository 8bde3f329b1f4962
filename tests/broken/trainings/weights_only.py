# ranks: 1
# cause: weights-only
# remedy: weights_only

"""A checkpoint that holds objects of the program."""

import argparse
import os
import tempfile

import torch

path = os.path.join(tempfile.mkdtemp(), "last.pt")
torch.save({"args": argparse.Namespace(lr=1)}, path)
torch.load(path)
