"""Says which GPUs the rank may see."""

import os

print("visible", repr(os.environ.get("CUDA_VISIBLE_DEVICES")), flush=True)
