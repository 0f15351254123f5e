"""Kafka Streams' user data, and the follow-up that an assignment asks for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import DecodeError
from agent.wire.codec.messages import HostPort
from agent.wire.codec.streams_user_data import (
    AssignmentInfo,
    SubscriptionInfo,
    find_follow_up,
    read_assignment_info,
    read_subscription_info,
)
from tests.agent.wire.talk import Talk, Wire
from tests.agent.wire.user_data import NEVER, assignment_info, subscription_info

HOST = ("localhost", 9001)


@pytest.mark.parametrize("version", range(1, 12))
def test_every_subscription_is_read(version: int) -> None:
    info = read_subscription_info(subscription_info(version, process=5, endpoint="localhost:9001"))

    endpoint = HostPort(*HOST) if version >= 2 else None
    process_id = "00000000-0000-0000-0000-000000000005"
    assert info == SubscriptionInfo(version=version, process_id=process_id, endpoint=endpoint)


@pytest.mark.parametrize("version", range(1, 12))
def test_every_assignment_is_read(version: int) -> None:
    data = assignment_info(version, hosts=(HOST,), error=3, next_ms=77, common=11, named="top")

    assert read_assignment_info(data) == AssignmentInfo(
        version=version,
        commonly_supported=11 if version >= 3 else -1,
        hosts=frozenset({HostPort(*HOST)}) if version >= 2 else frozenset(),
        error=3 if version >= 4 else 0,
        next_rebalance_ms=77 if version >= 7 else NEVER,
    )


def test_beyond_the_known_versions_only_the_versions_are_read() -> None:
    assert read_subscription_info(b"\0\0\0\x0c") == SubscriptionInfo(version=12)
    assert read_assignment_info(b"\0\0\0\x0c\0\0\0\x0d") == AssignmentInfo(
        version=12, commonly_supported=13
    )


@pytest.mark.parametrize("endpoint", ["", "host", ":", "h:", "h:x", "h:999999", "h:" + "9" * 5000])
def test_an_odd_endpoint_is_none(endpoint: str) -> None:
    assert read_subscription_info(subscription_info(11, endpoint=endpoint)).endpoint is None


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_a_decode_error(data: bytes) -> None:
    for read in (read_subscription_info, read_assignment_info):
        try:
            read(data)
        except DecodeError:
            continue


class TestFollowUp:
    SENT = SubscriptionInfo(version=11, endpoint=HostPort(*HOST))

    def status(self, sent: SubscriptionInfo = SENT, **given: object) -> int | None:
        values = {"version": 11, "commonly_supported": 11, **given}
        follow_up = find_follow_up(sent, AssignmentInfo(**values), 5.0)  # type: ignore[arg-type]
        return None if follow_up is None else int(follow_up.status)

    def test_none_is_asked_for(self) -> None:
        assert self.status() is None

    def test_tasks_that_move_ask_for_one_at_once(self) -> None:
        assert self.status(next_rebalance_ms=0) == 10

    def test_a_time_is_a_probing_rebalance(self) -> None:
        given = AssignmentInfo(version=11, commonly_supported=11, next_rebalance_ms=60_000)
        follow_up = find_follow_up(self.SENT, given, 5.0)

        assert follow_up is not None
        assert (follow_up.status, follow_up.due_at) == (11, 60.0)

    def test_a_lower_version_back_is_version_probing(self) -> None:
        assert self.status(version=9, commonly_supported=9, next_rebalance_ms=0) == 12

    def test_a_higher_common_version_is_version_probing(self) -> None:
        assert self.status(SubscriptionInfo(version=9), version=9) == 12

    def test_an_endpoint_that_is_missing_must_be_made_known(self) -> None:
        assert (
            self.status(hosts=frozenset({HostPort("localhost", 9002)}), next_rebalance_ms=0) == 13
        )

    def test_an_endpoint_is_not_missed_where_there_are_none(self) -> None:
        assert self.status(hosts=frozenset()) is None
        assert self.status(hosts=frozenset({HostPort(*HOST)})) is None

    def test_an_assignment_error_asks_for_nothing(self) -> None:
        assert self.status(error=3, next_rebalance_ms=0) is None


class TestThread:
    """The user data on its way through JoinGroup and SyncGroup."""

    @pytest.fixture
    def talk(self) -> Talk:
        talk = Wire().connect("app-StreamThread-1-consumer")
        talk.join(protocol="stream", user_data=subscription_info(11))
        talk.joined(protocol="stream")
        talk.sync()
        return talk

    @pytest.mark.parametrize(("next_ms", "code"), [(0, 10), (2_000_000, 11)])
    def test_the_sync_carries_the_follow_up(self, talk: Talk, next_ms: int, code: int) -> None:
        layer = talk.synced({"t": [0]}, user_data=assignment_info(11, next_ms=next_ms))[
            0
        ].streams_follow_up

        assert layer is not None
        assert layer.status == code

    def test_the_follow_up_itself_is_streams_enforcing_a_rebalance(self, talk: Talk) -> None:
        talk.synced({"t": [0]}, user_data=assignment_info(11, next_ms=0))

        signal = talk.join(reason="triggered followup rebalance scheduled for 0")[0]
        assert (signal.status, signal.streams_follow_up) == (6, None)

    def test_without_a_reason_too(self, talk: Talk) -> None:
        talk.synced({"t": [0]}, user_data=assignment_info(11, next_ms=0))

        assert talk.join(protocol="stream", version=7)[0].status == 6

    def test_a_probing_rebalance_says_what_it_is(self, talk: Talk) -> None:
        talk.synced({"t": [0]})

        reason = "triggered followup rebalance scheduled for 1795243000694"
        layer = talk.join(reason=reason)[0].streams_follow_up
        assert layer is not None
        assert (layer.status, layer.due_at) == (11, 1795243000.694)

    def test_another_process_does_not_follow_up_what_the_one_before_was_asked_for(
        self, talk: Talk
    ) -> None:
        talk.synced({"t": [0]}, user_data=assignment_info(11, next_ms=2_000_000))
        talk.close()

        successor = talk.wire.connect(talk.client_id)
        signals = successor.join("", protocol="stream", user_data=subscription_info(11))
        # its partitions are free; that is all
        assert [signal for signal in signals if signal.kind != "seen"] == []

    def test_odd_user_data_is_counted_and_the_rest_works(self, talk: Talk) -> None:
        signal = talk.synced({"t": [0]}, user_data=b"\0\0")[0]

        assert (signal.kind, signal.streams_follow_up) == ("sync", None)
        assert talk.wire.interpreter.counts == {"streams_assignment": 1}

    def test_an_unknown_version_is_counted_and_the_rest_works(self, talk: Talk) -> None:
        talk.join(protocol="stream", user_data=b"\0\0\0\x63", owned={"t": [0, 1]})
        talk.joined(protocol="stream", generation=2)
        talk.sync(generation=2)
        follow_up = talk.synced({"t": [0]}, user_data=b"\0\0\0\x63\0\0\0\x63")[0].follow_up

        assert follow_up is not None
        assert follow_up.status == 10
        assert talk.wire.interpreter.counts == {"streams_version_99": 1}
