"""Types of external values: durations and sizes with a unit, and integers of 64 bits.

The unit of a field is in its type, not in its name: `agent.config.codec` reads ``30s`` for a
`Duration` and ``512MiB`` for a `Size`.
"""

from typing import Annotated

import msgspec

Duration = Annotated[float, "duration"]
"""Seconds. The field states its key: ``metadata={"key": "linger"}``."""
Size = Annotated[int, "size"]
"""Bytes."""
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A number of a peer. Longer ones have no float, and no column of a table holds them."""
