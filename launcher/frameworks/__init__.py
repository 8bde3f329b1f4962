"""How each framework learns its place: pure functions from an assignment to environment and argv."""
