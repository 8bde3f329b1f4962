# ranks: 1
# cause: module-missing
# says: torch._six
# remedy: torch is there, without that part
"""Code of an older torch imports a part that newer ones do not have."""

from torch._six import inf

print(inf)
