"""The run folder: the one place where a run's facts, output, samples and results are kept.

`paths` names the files, `catalog` finds folders, `writer` appends to one, `reader` and `logs` read one that
may still be growing. Nothing here depends on how runs are launched or shown.
"""
