"""Ways to what there is: the command bar, jump mode, the help, and commands of the user."""
