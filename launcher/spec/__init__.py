"""What to run: the job, its target, and what the target's source says of itself."""
