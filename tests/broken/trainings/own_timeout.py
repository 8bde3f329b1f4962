# ranks: 1
# cause: none

"""A timeout of the user's own service."""

raise TimeoutError("the feature store timed out after 30 s")
