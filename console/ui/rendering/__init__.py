"""What uses Textual's internals: fewer bytes to the terminal, input in order, contained failures."""
