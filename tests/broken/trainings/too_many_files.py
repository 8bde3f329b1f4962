# ranks: 1
# cause: too-many-files
# remedy: ulimit -n

"""Shards are opened and never closed."""

import resource

resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
shards = [open(__file__) for _ in range(1000)]
