"""A function of ours in a process that we did not start, such as Spark's Python workers."""

import pickle
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from kafka_rebalance_agent import enter


def call(pickled: bytes, *arguments: Any) -> Any:
    """Call a function that our own driver has pickled."""
    return _function(pickled)(*arguments)


@lru_cache(maxsize=8)
def _function(pickled: bytes) -> Callable[..., Any]:
    """Return the function; a worker calls it once a group, thousands of times."""
    enter()
    function: Callable[..., Any] = pickle.loads(pickled)  # noqa: S301 - Spark trusts its driver
    return function
