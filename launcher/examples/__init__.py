"""Trainings to copy from: each is a script for any launcher, and has a function for `Distributor.run`."""
