"""Ranks' output on disk, and its lines in the order of arrival."""
