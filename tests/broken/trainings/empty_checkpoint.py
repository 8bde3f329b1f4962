# ranks: 1
# cause: checkpoint-torn
# remedy: older checkpoint

"""The checkpoint is an empty file."""

import os
import tempfile

import torch

path = os.path.join(tempfile.mkdtemp(), "last.pt")
open(path, "w").close()
torch.load(path)
