"""Why a gang cannot be placed, where the cause of that is known; callers take each for a `CannotPlace`."""

from __future__ import annotations

from ..errors import CannotPlace


class EngineCutOff(CannotPlace):
    """An executor cannot reach the run's engine, and no other way leads there."""


class HostsCutOff(CannotPlace):
    """Hosts of the gang cannot reach the one where its ranks would have met."""


class VersionsDiffer(CannotPlace):
    """Hosts have another Python than the caller or the driver, and the run cannot do with that."""


PLACEMENT = (CannotPlace, EngineCutOff, HostsCutOff, VersionsDiffer)
"""All errors that say that ranks cannot be given places."""
