"""Launches before they start: targets, filled-in forms, presets, checks, and runs to repeat."""
