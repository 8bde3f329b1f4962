"""Ways of getting agents started."""
