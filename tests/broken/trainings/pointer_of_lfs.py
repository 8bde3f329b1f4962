# ranks: 1
# cause: checkpoint-torn
# certainty: likely
# says: Git LFS
# remedy: git lfs pull
"""The repository was cloned without its large files: a pointer lies where the weights should be."""

from pathlib import Path

import torch

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935\nsize 102530333\n"
Path("weights.pt").write_text(POINTER)
torch.load("weights.pt")
