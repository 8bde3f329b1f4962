# ranks: 1
# cause: none

"""A guard of the user's own refuses a node by what somebody noted of it: no GPU has failed in this run."""

NOTED = "uncorrectable ECC error"
raise RuntimeError(f"CUDA error: {NOTED} was noted for this node last week, drain it before training")
