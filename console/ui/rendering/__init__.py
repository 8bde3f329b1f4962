"""What touches Textual's insides: fewer bytes to the terminal, keys in order, panes that fail alone."""
