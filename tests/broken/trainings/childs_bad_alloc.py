# ranks: 1
# cause: none or memory-limit
# certainty: likely

"""A decoder that the script starts runs out of memory, and is tried again; later the rank aborts by itself."""

import os
import subprocess

says = "terminate called after throwing an instance of 'std::bad_alloc'"
subprocess.run(["sh", "-c", f'echo "{says}" >&2; exit 134'], check=False)
print("decoder failed, using the slow one", flush=True)
os.abort()
