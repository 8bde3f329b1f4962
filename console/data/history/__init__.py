"""The runs there have been."""
