"""A script's own options: read from its source and config files, checked, and kept in its arguments."""
