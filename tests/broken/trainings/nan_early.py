# ranks: 1
# cause: none

"""A NaN was reported of a metric long ago; the failure is another one."""

import launcher

launcher.report(step=0, perplexity=float("nan"))
for step in range(1, 40):
    launcher.report(step=step, loss=1.0)
raise KeyError("label")
