"""Files on an agent's host: those that it was sent for its ranks, and those that its ranks write."""
