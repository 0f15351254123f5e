"""Rebalances of members as records have them, for the comparison of two sources."""

from collections.abc import Iterable, Mapping
from typing import Any

Episodes = dict[str, list[list[int]]]
"""By member id: the codes of each rebalance, in order; the last is its end."""


def episodes(rows: Iterable[Mapping[str, Any]], hidden: frozenset[int] = frozenset()) -> Episodes:
    """Return the codes of each member's episodes, without codes that a log never shows."""
    members: dict[str, str] = {}
    codes: dict[str, list[int]] = {}
    for row in rows:
        members[row["episode"]] = row["member_id"] or members.get(row["episode"], "")
        shown = codes.setdefault(row["episode"], [])
        if row["to"] not in hidden:
            shown.append(row["to"])
    found: Episodes = {}
    for episode, shown in codes.items():
        if any(shown):
            found.setdefault(members[episode], []).append(shown)
    return found
