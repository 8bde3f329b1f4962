# ranks: 2
# cause: checkpoint-torn
# remedy: os.replace

"""The job was killed while it saved, and loads the half of the file."""

import os
import tempfile

import torch

path = os.path.join(tempfile.mkdtemp(), "last.pt")
torch.save({"weight": torch.ones(10_000)}, path)
os.truncate(path, 20_000)
torch.load(path)
