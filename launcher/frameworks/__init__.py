"""How ranks of each framework learn their place: a row of the registry and a file per framework."""
