"""Session timeouts that brokers hold for groups of the new protocols (KIP-848, 932, 1071).

Any broker responds: with the group's own value, else with the cluster's. An ACL for DescribeConfigs
on the group is needed; without it, or before Kafka 4.0, the timeout is not known.
"""

from collections.abc import Sequence
from typing import NamedTuple

from agent.inspection.connection.admin_requests import Api
from agent.inspection.connection.broker_pool import BrokerPool
from agent.inspection.connection.errors import BrokerError
from agent.inspection.model import GroupType

_GROUP_RESOURCE = 32
"""ConfigResource.Type.GROUP."""
_BATCH = 500
POLLS_BETWEEN = 30
"""A known group is read again after so many polls: 5 minutes by default. Settings change rarely."""
WITH_SESSION = {GroupType.CONSUMER, GroupType.SHARE, GroupType.STREAMS}


class GroupSession(NamedTuple):
    """A group's session timeout under its setting."""

    setting: str
    value_ms: str


class SessionReader:
    """Reads the session timeouts of groups: of new ones at once, of all now and then."""

    def __init__(self, brokers: BrokerPool) -> None:
        self._brokers = brokers
        self._known: dict[str, GroupType] = {}
        self._polls = 0

    async def read(self, groups: Sequence[tuple[str, GroupType]]) -> dict[str, GroupSession]:
        """Return the session timeouts of the groups that it is time to read."""
        types = {name: kind for name, kind in groups if kind in WITH_SESSION}
        is_due, self._polls = self._polls % POLLS_BETWEEN == 0, self._polls + 1
        due = [name for name, kind in types.items() if is_due or self._known.get(name) is not kind]
        self._known = types
        found: dict[str, GroupSession] = {}
        for start in range(0, len(due), _BATCH):
            found |= await self._read_batch(
                {name: types[name] for name in due[start : start + _BATCH]}
            )
        return found

    async def _read_batch(self, types: dict[str, GroupType]) -> dict[str, GroupSession]:
        wanted = {name: f"{kind.lower()}.session.timeout.ms" for name, kind in types.items()}
        resources = [
            {
                "resource_type": _GROUP_RESOURCE,
                "resource_name": name,
                "configuration_keys": (setting,),
            }
            for name, setting in wanted.items()
        ]
        try:
            fields = await self._brokers.send_any(
                Api.DESCRIBE_CONFIGS,
                resources=resources,
                include_synonyms=False,
                include_documentation=False,
            )
        except BrokerError:
            return {}
        return {
            name: GroupSession(wanted[name], each["value"])
            for result in fields["results"] or ()
            for name in [result["resource_name"]]
            if not result["error_code"] and name in wanted
            for each in result["configs"] or ()
            if each["name"] == wanted[name] and each["value"]
        }
