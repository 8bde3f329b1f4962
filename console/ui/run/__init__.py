"""The run screen and its panes."""
