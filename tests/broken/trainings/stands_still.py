# ranks: 2
# options: --no-progress-timeout 15
# cause: standstill
# remedy: rankdeck stacks

"""Both ranks wait for a lock of their own."""

import threading

threading.Lock().acquire()
lock = threading.Lock()
lock.acquire()
lock.acquire()
