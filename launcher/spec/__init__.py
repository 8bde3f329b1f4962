"""What to run: the job, its target, and what can be read from the target's source."""
