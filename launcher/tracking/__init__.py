"""Writing what ranks report to experiment trackers, in a process of its own beside the owner of the run."""
