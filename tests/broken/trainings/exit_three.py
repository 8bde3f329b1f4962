# ranks: 1
# cause: none

"""A script of a framework that ends with a code of its own."""

import sys

print("No space left on device", file=sys.stderr)
sys.exit(3)
