"""The detached process that owns runs, and its clients."""
