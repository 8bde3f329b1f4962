"""A run's output as a log pane shows it."""
