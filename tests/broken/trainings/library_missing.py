# ranks: 1
# cause: library-missing
# says: libnot_there.so.3
# remedy: LD_LIBRARY_PATH

"""A compiled extension whose library is not installed."""

import pathlib
import subprocess
import sys
import sysconfig
import tempfile

folder = pathlib.Path(tempfile.mkdtemp())
(folder / "dep.c").write_text("int dep(void) { return 1; }")
(folder / "ext.c").write_text("int dep(void); void *PyInit_fastops(void) { dep(); return 0; }")
subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "libnot_there.so.3", folder / "dep.c"], check=True)
name = "fastops" + sysconfig.get_config_var("EXT_SUFFIX")
subprocess.run(
    ["gcc", "-shared", "-fPIC", "-o", folder / name, folder / "ext.c", folder / "libnot_there.so.3"],
    check=True,
)
(folder / "libnot_there.so.3").unlink()
sys.path.insert(0, str(folder))
import fastops
