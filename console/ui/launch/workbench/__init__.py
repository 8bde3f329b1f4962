"""The part of the launch screen beside the form: trainings found here, their source, places, and changes."""
