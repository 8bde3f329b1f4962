# ranks: 1
# cause: no-terminal
# remedy: breakpoint

"""A breakpoint that was left in the code."""


def loss(batch):
    breakpoint()
    return sum(batch)


loss([1, 2])
