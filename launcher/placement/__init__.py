"""Placement: the host, agent, devices and addresses of every rank."""
