"""Places of members: whether a member that arrives replaces one that went. Pure.

Theory of operation. A process that restarts has a new member id; its place stays. The place is the
first of these that both have: the ``group.instance.id``; the client id, where one member has it;
the host, where client ids repeat; host and client id without generated parts, where the host is
a pod of a Deployment; the same of the client id alone, where a pod's name is a part of it. Without
such names only the client id or instance id counts.

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


@lru_cache(maxsize=4096)  # it is asked for by pairs of members
def place_key(member: MemberRef) -> tuple[str, ...]:
    """Return the identity of a member's process: threads of a Streams instance share it."""
    thread = streams_thread(member.client_id)
    if thread is None:
        return member.key
    return (thread.instance, member.host)


def replaces(arrived: MemberRef, gone: MemberRef, *, is_shared: bool) -> bool:
    """Check that a member came to the place of one that went.

    The client id ``is_shared`` where several members of the group have it.
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
    """Return the ReplicaSets that a member's host and client id name; none where it is no pod."""
    pods = (_POD_SUFFIX.search(name) for name in (member.host, member.client_id))
    return frozenset(pod[1] for pod in pods if pod is not None)


@lru_cache(maxsize=4096)  # as above
def _workload(member: MemberRef) -> tuple[str, str] | None:
    """Return host and client id without their generated parts; None where neither is a pod's."""
    base = _POD_SUFFIX.sub("", member.host)
    if base == member.host and _POD_SUFFIX.search(member.client_id) is None:
        return None
    is_pod = base != member.host
    return base if is_pod else "", _GENERATED.sub("", member.client_id)
