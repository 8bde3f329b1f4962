"""A run at any moment of its time: the fold of its facts up to then."""
