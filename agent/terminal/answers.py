"""What the terminal reads of the API's answers: an address may belong to another program."""

from typing import NotRequired, TypedDict


class GroupFields(TypedDict):
    """A group of ``/api/v1/groups``."""

    cluster: str
    group: str
    group_type: str
    status: int | None
    name: str | None
    members: int
    state: NotRequired[str | None]


class MemberFields(TypedDict):
    """A member of ``/api/v1/members``."""

    client_id: str | None
    member_id: str | None
    host: str | None
    status: int
    name: str
    since: str
    peak: int
    peak_name: str
    reason: str | None


class SourceFields(TypedDict):
    """A source of ``/api/v1/sources``."""

    name: str
    up: bool
    files: NotRequired[list[object] | None]
