"""Who goes where: ranks, hosts, devices and addresses."""
