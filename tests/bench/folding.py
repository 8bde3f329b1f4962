"""What it takes to fold the facts of a gang: CPU microseconds a fact, and bytes that the state holds.

python -m tests.bench.folding RANKS SECONDS
"""

from __future__ import annotations

import gc
import json
import sys
import time
import tracemalloc

from launcher.state.fold import fold, fold_all
from tests.bench.busy_run import launch, second

BEGIN = 1_767_261_600.0


def main(ranks: int, seconds: int) -> None:
    """Fold so many seconds; the facts are made beforehand, a second at a time."""
    tracemalloc.start()
    state = fold_all(launch(ranks, BEGIN))
    for step in range(1, 3):
        for fact in second(ranks, step, BEGIN + step):
            state = fold(state, fact)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    spent, folded = 0.0, 0
    for step in range(3, 3 + seconds):
        facts = list(second(ranks, step, BEGIN + step))
        began = time.process_time()
        for fact in facts:
            state = fold(state, fact)
        spent, folded = spent + time.process_time() - began, folded + len(facts)
    assert state.ranks[ranks - 1].step == 2 + seconds
    print(json.dumps({"fact_us": spent / folded * 1e6, "held": held}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
