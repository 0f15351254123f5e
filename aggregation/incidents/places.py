"""Places of members, to find the member that replaces a departed one. Pure.

Theory of operation. A restarted process has a new member id, but the same place. The place is the
first of these that both members have:

1. the ``group.instance.id``;
2. the client id, if only one member has it;
3. client id and host, if several members have the client id; of several with both, each has a place
   of its own (`aggregation.rebalances.twins`);
4. host and client id without generated parts, if the host is a pod of a Deployment;
5. the client id without generated parts, if it contains a pod's name.

Members without such names have only the instance id or the client id as their place.

Source: incidents.md 1a.3.
"""

import re
from functools import lru_cache

from aggregation.rebalances.segments import MemberRef
from metrics.model.signals import streams_thread

_SAFE = "[bcdfghjklmnpqrstvwxz2456789]"
# https://github.com/kubernetes/apimachinery/blob/v0.30.0/pkg/util/rand/rand.go
_POD_SUFFIX = re.compile(rf"-({_SAFE}{{6,10}})-{_SAFE}{{5}}$")
_GENERATED = re.compile(
    rf"(-{_SAFE}{{6,10}}-{_SAFE}{{5}}|-[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}|[-_]?\d+)"
    r"(?=$|-StreamThread-)"
)


@lru_cache(maxsize=4096)  # called for each pair of members
def place_key(member: MemberRef) -> tuple[str, ...]:
    """Return the identity of a member's process: threads of a Streams instance share it."""
    thread = streams_thread(member.client_id)
    if thread is None:
        return member.key
    return (thread.instance, member.host)


def replaces(arrived: MemberRef, gone: MemberRef, *, is_shared: bool) -> bool:
    """Check that a member took the place of a departed one.

    The client id ``is_shared`` if several members of the group have it.
    """
    if arrived.group_instance_id or gone.group_instance_id:
        return arrived.group_instance_id == gone.group_instance_id
    if streams_thread(gone.client_id) and arrived.client_id != gone.client_id:
        return place_key(arrived) == place_key(gone)
    if arrived.client_id == gone.client_id and (not is_shared or arrived.host == gone.host):
        return True
    return _workload(arrived) == _workload(gone) is not None


def is_other_release(arrived: MemberRef, gone: MemberRef) -> bool:
    """Check that two pods are of different ReplicaSets: their Deployment was changed."""
    return list_releases(arrived).isdisjoint(list_releases(gone)) and bool(list_releases(arrived))


@lru_cache(maxsize=4096)  # as above
def list_releases(member: MemberRef) -> frozenset[str]:
    """Return the ReplicaSets that a member's host and client id name; empty if it is no pod."""
    pods = (_POD_SUFFIX.search(name) for name in (member.host, member.client_id))
    return frozenset(pod[1] for pod in pods if pod is not None)


@lru_cache(maxsize=4096)  # as above
def _workload(member: MemberRef) -> tuple[str, str] | None:
    """Return host and client id without generated parts; None if neither names a pod."""
    base = _POD_SUFFIX.sub("", member.host)
    if base == member.host and _POD_SUFFIX.search(member.client_id) is None:
        return None
    is_pod = base != member.host
    return base if is_pod else "", _GENERATED.sub("", member.client_id)
