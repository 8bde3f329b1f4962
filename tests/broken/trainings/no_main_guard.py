# ranks: 1
# cause: main-guard-missing
# remedy: __main__

"""Workers are spawned by a script without a main guard."""

import multiprocessing

worker = multiprocessing.get_context("spawn").Process(target=print, args=("hello",))
worker.start()
worker.join()
if worker.exitcode:
    raise SystemExit(worker.exitcode)
