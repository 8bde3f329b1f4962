"""What goes around the caller's function on its way to ranks, so that people see only the function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..spec import pickles

Function = Callable[..., Any]


def wraps(function: Function) -> Callable[[Function], Function]:
    """As `functools.wraps`, also for a callable without a name: the run gets that of its class.

    A run takes its name, its source and the check of its arguments from what is wrapped. Ranks get the
    wrapper by value: it is found in no module by its name.
    """

    def name(wrapper: Function) -> Function:
        _take_name(wrapper, function)
        return wrapper

    return name


def _take_name(wrapper: Any, function: Function) -> None:
    functools.update_wrapper(wrapper, function)
    wrapper.__qualname__ = getattr(function, "__qualname__", type(function).__name__)


class WithNames:
    """A function that is loaded in ranks once rankdeck stands behind the originals' names there.

    Its own module may import them, which happens when it is unpickled.
    """

    def __init__(self, function: Function) -> None:
        _take_name(self, function)
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self._function(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        """What ranks load is the function itself."""
        import cloudpickle

        return load_with_names, (cloudpickle.dumps(self._function),)


def load_with_names(data: bytes) -> Function:
    """Load a function in a rank, and change the names for as long as the rank lives."""
    from .installation import INSTALLATION

    INSTALLATION.begin()
    function: Function = pickles.loads(data)
    return function
