"""Votes for a classic group's assignor, recounted from the members' joins.

The coordinator (ClassicGroup.selectProtocol, Kafka 4.3) takes the assignors that every member
supports. Each member votes for the first of them in its own order, and the most votes win.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from agent.inspection.model import AssignorVote

_NAMES = 3
"""Members that a reason names."""


def count_votes(
    supported: Mapping[str, Sequence[str]], chosen: str | None
) -> tuple[AssignorVote, ...]:
    """Return every assignor that a member supports, the chosen one first.

    ``supported`` has the assignors of every member by member id, in its order of preference.
    """
    names = list(dict.fromkeys(name for each in supported.values() for name in each))
    missing = {
        name: [member for member, known in supported.items() if name not in known] for name in names
    }
    candidates = {name for name in names if not missing[name]}
    first = (next((n for n in known if n in candidates), None) for known in supported.values())
    votes = Counter(name for name in first if name is not None)
    rows = [
        AssignorVote(
            assignor=name,
            is_chosen=name == chosen,
            supported_by=len(supported) - len(missing[name]),
            votes=votes[name],
            reason=_reason(name, chosen, missing[name], votes, len(supported)),
        )
        for name in names
    ]
    return tuple(sorted(rows, key=lambda row: (not row.is_chosen, -row.votes, row.assignor)))


def _reason(
    name: str, chosen: str | None, missing: Sequence[str], votes: Counter[str], members: int
) -> str:
    if missing:
        more = len(missing) - _NAMES
        others = ", ".join(sorted(missing)[:_NAMES]) + (f" and {more} more" if more > 0 else "")
        return f"not supported by {others}"
    share = f"{votes[name]} of {members} members prefer it"
    if name == chosen:
        return share
    if chosen is not None and votes[name] < votes[chosen]:
        return f"{share}, {votes[chosen]} prefer {chosen}"
    return f"{share}; the coordinator chose among equals"
