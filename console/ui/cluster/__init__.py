"""The cluster screen and its panes."""
