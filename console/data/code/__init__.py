"""The code that a run names, and the editor that opens it."""
