"""Screens: they lay panes out, bind keys, and carry messages between panes, sources and commands."""
