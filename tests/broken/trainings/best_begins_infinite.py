# ranks: 2
# cause: none
"""The best loss begins as infinite, as it should; the data of rank 1 has a NaN that a check finds."""

import math
import os

import launcher

launcher.report(step=0, best=math.inf)
launcher.report(step=1, best=0.5)
if os.environ["RANK"] == "1":
    raise ValueError("Input contains NaN: column 'age' of users.csv")
