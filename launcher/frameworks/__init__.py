"""How each framework learns its place: a row of the registry and a file of its own for each."""
