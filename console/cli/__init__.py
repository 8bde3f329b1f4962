"""The command line: one module for what belongs together."""
