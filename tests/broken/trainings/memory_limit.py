# ranks: 1
# cause: memory-limit
# remedy: ulimit -v

"""An address space limit, as `ulimit -v` sets it."""

import resource

resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
cache = [bytearray(1 << 24) for _ in range(1000)]
