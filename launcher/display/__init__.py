"""What a Python caller sees of a run while it waits for it: the ranks' lines, or a panel in a notebook."""
