# ranks: 1
# cause: none
"""A helper of the project comes in a zip, and words an error of its own as CUDA would."""

import sys
import zipfile
from pathlib import Path

HELPER = """
def reserve(size, room):
    if size > room:
        raise RuntimeError(f"CUDA out of memory. The plan needs {size} GiB, and a GPU of that node has {room}")
"""

archive = Path("helpers.zip").absolute()
with zipfile.ZipFile(archive, "w") as zipped:
    zipped.writestr("plans.py", HELPER)
sys.path.insert(0, str(archive))

import plans

plans.reserve(81, 80)
