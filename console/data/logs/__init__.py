"""A run's output for the log pane: lines, searches and filters."""
