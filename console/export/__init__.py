"""Exports: a run as one file and as an HTML page, a list of runs as CSV."""
