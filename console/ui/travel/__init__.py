"""Time travel: the run screen at any moment of its run."""
