"""One run, live or ended: its folder's facts and output as one frozen view."""
