"""Files of a run: those of the caller's that its hosts need, found, chosen and packed into a bundle."""
