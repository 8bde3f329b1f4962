# ranks: 1
# options: --fresh
# cause: none

"""A file of the user's own has the name of a package and hides it: installing that would not help."""

import pathlib
import sys
import tempfile

with tempfile.TemporaryDirectory() as folder:
    pathlib.Path(folder, "numpy.py").write_text("# my first steps with numpy\n")
    sys.path.insert(0, folder)
    import numpy.linalg
