"""The numbers of a rank's two outputs: those of its descriptors, on the wire and in the run folder alike."""

STDOUT, STDERR = 1, 2
