"""The ranks of a run as rows: their columns, which of them are listed, and in which order."""
