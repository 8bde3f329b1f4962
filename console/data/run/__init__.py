"""One run, live or over: what its folder says, folded into one frozen view."""
