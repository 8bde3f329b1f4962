"""The checks of `rankdeck doctor`: facts of this machine and of hosts in, findings out. Pure."""
