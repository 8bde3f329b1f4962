"""The history screen, its panes, and two runs beside each other."""
