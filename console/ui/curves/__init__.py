"""Curves on the screen: one plot, the pane of the run screen, the screen of its own."""
