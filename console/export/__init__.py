"""A run taken elsewhere: one file of it, a page for any browser, a list as CSV."""
