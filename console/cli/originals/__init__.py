"""Command lines of other launchers, run as they stand: one word of ours in front of them.

``rankdeck [our options] torchrun --nproc-per-node 4 train.py --lr 0.1``: `command` has the commands and the
way from such a line to a run, `base` what a table of another launcher's options is, and each of the other
files the table of one launcher and what its lines mean here.
"""
