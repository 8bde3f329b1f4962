"""A table of vectors through a network of PyTorch.

rankdeck predict launcher/examples/predict_torch.py:load --input vectors.parquet --output scored \
    --columns vector --shape vector=64 --returns "array<float>" --param weights=/models/net.pt

`weights` is what ``torch.save(model.state_dict(), …)`` wrote, on storage that executors read too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def make_model(inputs: int = 64, outputs: int = 10) -> Any:
    """The network, with random weights."""
    import torch

    torch.manual_seed(0)
    hidden = torch.nn.Linear(inputs, 128)
    return torch.nn.Sequential(hidden, torch.nn.ReLU(), torch.nn.Linear(128, outputs))


def load(device: str, weights: str = "") -> Callable[..., Any]:
    """The network on a device; called once in each worker."""
    import torch

    model = make_model()
    if weights:
        model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    device = device if torch.cuda.is_available() else "cpu"
    model = model.to(device).eval()

    def predict(vectors: Any) -> Any:
        """The outputs for a batch, an array of numpy with a row for each vector."""
        with torch.inference_mode():
            return model(torch.from_numpy(vectors).float().to(device)).cpu().numpy()

    return predict
