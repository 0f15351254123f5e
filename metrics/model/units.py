"""Types of configuration values with a unit, in seconds and bytes.

A field's type says its unit, not its name: `agent.config.codec` reads ``30s`` for a `Duration` and
``512MiB`` for a `Size`.
"""

from typing import Annotated

Duration = Annotated[float, "duration"]
"""Seconds. The field states its key: ``metadata={"key": "linger"}``."""
Size = Annotated[int, "size"]
"""Bytes."""
