"""Colour themes, one TOML file each; this module makes the folder a package, and holds nothing."""
