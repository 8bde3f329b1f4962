"""The history screen, its panes, and the comparison of two runs."""
