# ranks: 1
# cause: none

"""A check of the user that quotes CUDA."""

raise ValueError("batch too large, CUDA out of memory is likely: Address already in use?")
