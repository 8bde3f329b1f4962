"""Telling people how a run fares when they are away: a webhook and a command, sent by the run's owner."""
