# ranks: 1
# cause: none

"""A wrong pointer."""

import ctypes

ctypes.string_at(0)
