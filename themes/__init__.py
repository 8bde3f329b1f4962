"""Colour themes, one TOML file each; `console.themes` reads them from this package."""
