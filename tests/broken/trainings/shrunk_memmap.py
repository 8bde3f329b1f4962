# ranks: 1
# cause: none

"""The tokens' file is written anew, shorter, while a rank has it mapped: SIGBUS, and /dev/shm is not full."""

import tempfile

import numpy

with tempfile.NamedTemporaryFile() as file:
    file.write(bytes(1 << 20))
    file.flush()
    tokens = numpy.memmap(file.name, dtype=numpy.uint16, mode="r")
    file.truncate(0)
    print(int(tokens[-1]))
