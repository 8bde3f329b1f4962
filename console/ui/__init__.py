"""Screens and panes: a parent sets values on its widgets, and a widget posts messages to its parents."""
