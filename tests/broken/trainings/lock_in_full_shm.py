# ranks: 1
# needs: shm
# cause: shm-full
# says: /dev/shm
# remedy: --shm-size

"""What ran before has left /dev/shm full: not even the lock of a queue can be made there."""

import multiprocessing

try:
    with open("/dev/shm/left-behind", "wb") as left:
        while True:
            left.write(bytes(1 << 20))
except OSError:
    pass
batches = multiprocessing.Queue()
