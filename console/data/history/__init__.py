"""All recorded runs: the list, its filter, and comparisons."""
