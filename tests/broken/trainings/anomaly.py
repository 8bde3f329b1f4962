# ranks: 1
# cause: not-finite
# remedy: epsilon

"""torch's anomaly detection finds the NaN."""

import torch

x = torch.zeros(2, requires_grad=True)
with torch.autograd.detect_anomaly():
    (torch.sqrt(x) * 0).sum().backward()
