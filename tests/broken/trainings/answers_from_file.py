# ranks: 1
# cause: no-terminal or none
# certainty: likely
"""Answers are read from a file, which has too few of them: nobody would need a terminal."""

import sys
from pathlib import Path

Path("answers.txt").write_text("resnet50\n")
sys.stdin = open("answers.txt")
model = input("model: ")
epochs = int(input("epochs: "))
