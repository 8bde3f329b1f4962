"""What could be launched here, and a launch as it is filled in."""
