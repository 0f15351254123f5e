"""Events that are *not* a cause, item by item and source by source.

A class is an item, a method is a source. Items that a source cannot meet are listed with the
reason, and the last test checks that no pair is missing. Several sources of one member are in
`tests/metrics/tracking/test_merge.py`, and the member that a root cause names in
`tests/aggregation/rebalances/test_rebalances.py`.
"""

import inspect
import sys

import pytest

from agent.sources.statistics.interpreter import StatisticsInterpreter
from agent.sources.statistics.line_parser import StatsParser
from metrics.model.signals import Signal
from tests.agent.sources.broker_logs.broker_lines import Broker
from tests.agent.sources.librdkafka_stats.stats_lines import Client
from tests.agent.sources.lines.spoken import (
    ASSIGNED,
    CLOSED,
    JOINING,
    REBALANCING,
    got,
    is_report,
    says,
    signals,
    synced,
)
from tests.agent.wire.frames import FIND_COORDINATOR, HEARTBEAT, LEAVE_GROUP
from tests.agent.wire.talk import Talk, Wire
from tests.agent.wire.user_data import assignment_info, subscription_info

_THREAD = "app-StreamThread-1-consumer"
_MEMBER = "m1-9d747722-1881-4527-b066-574f116c89d1"
_LOG, _WIRE, _BROKER, _STATS = "test_log", "test_wire", "test_broker_log", "test_statistics"
_CANNOT_MEET = {
    ("ProActivelyLeaving", _STATS): "librdkafka has no such text",
    ("TriggeredFollowUp", _STATS): "Streams is Java's",
    ("MemberIdRequired", _STATS): "librdkafka does not call its answer a reason",
    ("TypedReason", _STATS): "librdkafka has no enforceRebalance",
    ("LeaveWithoutReason", _LOG): "a client's own log has the reason",
}


_COORDINATOR = "org.apache.kafka.clients.consumer.internals.ConsumerCoordinator"


def _requests(reason: str, client_id: str = "c") -> str:
    return says(f"Request joining group due to: {reason}", client_id=client_id)


def _member() -> Talk:
    """Return a member in generation 1 of a group, settled, as the wire shows it."""
    talk = Wire().connect()
    talk.settle()
    return talk


def _leaves(talk: Talk, member_id: str, reason: str | None) -> list[Signal]:
    member = {"member_id": member_id, "reason": reason}
    return talk.ask(LEAVE_GROUP, 5, group_id="g", members=(member,))


def _broker() -> Broker:
    """Return a broker with one settled member."""
    broker = Broker()
    broker.joins(_MEMBER)
    broker.settles(_MEMBER, 1)
    return broker


def _rejoins(words: str, member_id: str = _MEMBER) -> list[Signal]:
    return _broker().prints(
        "Preparing to rebalance group g in state PreparingRebalance with old generation 2 "
        f"(reason: Leader {member_id} re-joining group during Stable; client reason: {words})."
    )


def _looks(*looks: bytes) -> list[Signal]:
    """Return the signals of statistics that follow those of a client at rest."""
    view = StatsParser(StatisticsInterpreter(stream="s", group="g"))
    first, *rest = looks
    view.feed(first, 0.0)
    return [signal for look in rest for signal in view.feed(look, 0.0)]


class TestProActivelyLeaving:
    """It follows every leave, and can be the next join's reason."""

    reason = "consumer pro-actively leaving the group"

    def test_log(self) -> None:
        found = signals(says(JOINING), says(CLOSED), _requests(self.reason), says(JOINING))

        assert got(found) == ["join", "leave", "join"]

    def test_wire(self) -> None:
        assert got(_member().join(reason=self.reason)) == ["join"]

    def test_broker_log(self) -> None:
        assert got(_rejoins(self.reason)) == ["note", "join"]


class TestTriggeredFollowUp:
    """The consumer's 6, and the instance's code before it; with a set time it is 11."""

    now = "triggered followup rebalance scheduled for 0"
    later = "triggered followup rebalance scheduled for 1795243000694"

    def test_log(self) -> None:
        assert got(signals(_requests(self.now, _THREAD))) == ["6"]
        assert got(signals(_requests(self.later, _THREAD))) == ["6~11"]

    def test_wire(self) -> None:
        talk = Wire().connect(_THREAD)
        talk.join(protocol="stream", user_data=subscription_info(11))
        talk.joined(protocol="stream")
        talk.sync()

        assert got(talk.synced(user_data=assignment_info(11, next_ms=0))) == ["sync~10"]
        assert got(talk.join(reason=self.now)) == ["6"]
        assert got(_member().join(reason=self.later)) == ["6~11"]

    def test_broker_log(self) -> None:
        """It does not log the code that announced this follow-up."""
        assert got(_rejoins(self.now)) == ["note", "join"]
        assert got(_rejoins(self.later)) == ["6~11"]


class TestMemberIdRequired:
    """Inside "rebalance failed due to" it is 2, not 9."""

    def test_log(self) -> None:
        reason = "rebalance failed due to 'x' (MemberIdRequiredException)"

        assert got(signals(_requests(reason))) == ["2"]

    def test_wire(self) -> None:
        reason = "rebalance failed due to MemberIdRequiredException"

        assert got(_member().join(reason=reason)) == ["2"]

    def test_broker_log(self) -> None:
        assert got(_rejoins("rebalance failed due to MemberIdRequiredException")) == ["2"]


class TestLostCoordinator:
    """It is looked up again: no rebalance, no code."""

    @pytest.mark.parametrize(
        "text",
        [
            "Group coordinator x is unavailable or invalid due to cause: session timed out",
            "Group coordinator x is unavailable or invalid due to cause: error NOT_COORDINATOR",
            "Attempt to heartbeat failed since coordinator x is either not started or not valid",
            "Request joining group due to: rebalance failed due to 'null' (DisconnectException)",
            # asked of nobody: an answer with this error has a line of its own (the soak's c42)
            (
                "Request joining group due to: rebalance failed due to "
                "'The coordinator is not available.' (CoordinatorNotAvailableException)"
            ),
            "FindCoordinator request hit fatal exception",
        ],
    )
    def test_log(self, text: str) -> None:
        assert signals(says(text)) == []

    def test_an_answer_that_says_so_is_told_by_its_own_line(self) -> None:
        text = "JoinGroup failed: The coordinator is not available. Marking coordinator unknown."

        assert got(signals(says(text))) == ["9"]

    @pytest.mark.parametrize("error", [14, 15, 16])
    def test_wire(self, error: int) -> None:
        talk = _member()

        found = talk.ask(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=("g",))
        found += talk.tell(coordinators=({"key": "g", "error_code": error},))
        found += talk.heartbeat(error=error)
        talk.close()

        assert [signal for signal in found if signal.kind != "seen"] == []

    def test_broker_log(self) -> None:
        moves = "Unloaded group metadata for group epoch 3."

        assert _broker().prints(f"[GroupId g] {moves}", f"[Group g] {moves}") == []

    def test_statistics(self) -> None:
        client = Client()
        looks = [client.says(), client.says(state="steady"), client.says(state="steady")]

        assert got(_looks(*(look.replace(b'"up"', b'"query-coord"') for look in looks))) == []


class TestFencedInstance:
    """The client dies; a running episode has failed."""

    def test_log(self) -> None:
        reason = "encountered FENCED_INSTANCE_ID from HEARTBEAT response"

        assert got(signals(_requests(reason))) == ["fail"]

    def test_wire(self) -> None:
        assert got(_member().heartbeat(error=82)) == ["fail"]

    def test_broker_log(self) -> None:
        text = f"Static member {_MEMBER} with instance id i1 is fenced by existing member i1-2."

        assert _broker().prints(f"[GroupId g] {text}") == []

    def test_statistics(self) -> None:
        client = Client()

        found = _looks(client.says(), client.says("init", 2, "consumer fenced by newer instance"))

        assert got(found) == ["fail"]


class TestAdminsLeave:
    """Not 6 for any member: the removed one gets 3; the admin's reason is kept if it is seen."""

    def test_log(self) -> None:
        why = "encountered UNKNOWN_MEMBER_ID from OFFSET_COMMIT response"

        assert got(signals(_requests(why))) == ["3"]

    def test_wire(self) -> None:
        talk = _member()

        (note,) = _leaves(talk.wire.connect("admin"), "m1-a", "ops-bad-host")
        victim = talk.heartbeat(error=25)

        assert (note.member.client_id, note.reason) == ("m1", "ops-bad-host")
        assert got([note, *victim]) == ["note", "3"]

    def test_broker_log(self) -> None:
        found = _broker().leaves(_MEMBER, "ops-bad-host")

        assert got(found) == ["note", "3"]
        assert {signal.reason for signal in found} == {"ops-bad-host"}

    def test_statistics(self) -> None:
        client = Client()

        assert got(_looks(client.says(), client.says("init", 2, "resetting member-id"))) == ["3"]


class TestStaticRestart:
    """A static member's start and stop within its session have no code."""

    def test_log(self) -> None:
        found = signals(says(JOINING), says(synced(1)), says(ASSIGNED), says("Metrics closed"))

        assert got(found) == ["join", "sync"]

    def test_wire(self) -> None:
        talk = Wire().connect()

        found = talk.join("", group_instance_id="i1") + talk.joined("i1-x")
        found += talk.sync("i1-x") + talk.synced({"t": [0]})
        talk.close()

        assert got(found) == ["join", "sync"]

    def test_broker_log(self) -> None:
        broker = Broker()
        found = broker.prints(
            "Static member with groupInstanceId=i1 and unknown member id joins group g in Empty "
            f"state. Created a new member id {_MEMBER} for this member and add to the group.",
            "Preparing to rebalance group g in state PreparingRebalance with old generation 0 "
            f"(reason: Adding new member {_MEMBER} with group instance id i1; "
            "client reason: not provided).",
        )
        found += broker.settles(_MEMBER, 1)

        found += broker.prints(
            "Static member with groupInstanceId=i1 and unknown member id joins group g in Stable "
            f"state. Replacing previously mapped member {_MEMBER} with this groupInstanceId."
        )

        assert got(found) == ["note", "join", "sync"]

    def test_statistics(self) -> None:
        client, again = Client(), Client()
        looks = [client.says("init", 0), client.says("steady", 1), again.says("init", 0)]

        assert got(_looks(*looks, again.says("steady", 1))) == ["sync", "seen", "sync"]


class TestAnswerToWhatIsOver:
    """Responses to an older generation, or to requests before a leave, start no episode."""

    def test_log(self) -> None:
        stale = (
            "Attempt to heartbeat with stale Generation{generationId=1, memberId='c-1',"
            " protocol='range'} and group instance id Optional.empty failed due to"
            " ILLEGAL_GENERATION, ignoring the error"
        )
        found = signals(says(synced(2)), says(ASSIGNED), says(stale), says(CLOSED))

        assert got(found) == ["sync", "leave"]
        unknown = _requests("encountered UNKNOWN_MEMBER_ID from HEARTBEAT response")
        for answer in (says(REBALANCING), unknown):
            assert got(signals(says(JOINING), says(CLOSED), answer)) == ["join", "leave"]

    def test_wire(self) -> None:
        talk = _member()
        talk.settle(generation=2)

        assert got(talk.heartbeat(generation=1, error=22)) == []
        talk.ask(HEARTBEAT, 4, group_id="g", generation_id=2, member_id="m1-a")
        heartbeat = talk.asked
        _leaves(talk, "m1-a", "the consumer is being closed")
        talk.asked = heartbeat
        assert got(talk.tell(error_code=25)) == []

    def test_broker_log(self) -> None:
        """A second line about a leave is one; the answers themselves are not printed."""
        broker = _broker()

        found = broker.leaves(_MEMBER, "the consumer is being closed")

        assert got(found + broker.leaves(_MEMBER, "not provided")) == ["leave"]

    def test_statistics(self) -> None:
        """The reason of a rebalance that is over stays, and explains no later one."""
        client, old = Client(), "illegal generation"

        found = _looks(client.says(reason=old), client.says(count=2, reason=old))

        assert got(found) == ["join", "sync"]


class TestInvisibleCause:
    """It sets no code; it is counted (`..._unexplained_total` counts a join)."""

    def test_log(self) -> None:
        found = signals(says(synced(1)), says(ASSIGNED), says(JOINING))

        assert got(found) == ["sync", "join"]

    def test_wire(self) -> None:
        talk = Wire().connect()
        talk.settle(version=7)

        found = talk.join(version=7)

        assert got(found) == ["join"]
        assert got(talk.joined(generation=2)) == ["seen"]

    def test_broker_log(self) -> None:
        assert got(_rejoins("not provided")) == ["note", "join"]

    @pytest.mark.parametrize("reason", ["", "unsubscribe", "JoinGroup error"])
    def test_statistics(self, reason: str) -> None:
        client = Client()

        assert got(_looks(client.says(), client.says(count=3, reason=reason))) == ["join", "sync"]


class TestLeaveWithoutReason:
    """It is 6 with no reason: closed or dropped. A better source decides: `test_merge.py`."""

    def test_wire(self) -> None:
        talk = _member()

        (left,) = talk.ask(LEAVE_GROUP, 1, group_id="g", member_id="m1-a")

        assert (got([left]), left.reason) == (["leave"], None)

    def test_broker_log(self) -> None:
        (left,) = _broker().leaves(_MEMBER, "not provided")

        assert (got([left]), left.reason) == (["leave"], None)

    def test_statistics(self) -> None:
        """A close and another subscription are one text there: no code at all."""
        client = Client()

        assert got(_looks(client.says(), client.says("init", 2, "unsubscribe"))) == ["join"]


@pytest.mark.parametrize(
    "reason", ["rebalance enforced by user", "group is already rebalancing, said Ann", "日本語"]
)
class TestTypedReason:
    """A text that is none of the client's own was typed by a user: 6.

    In a log, Kafka's own layout shows where the text ends. Other layouts may append a text to each
    message (`test_text_behind_each_message_changes_nothing`).
    """

    def test_log(self, reason: str) -> None:
        (found,) = signals(f"{_requests(reason)} ({_COORDINATOR})")

        assert (found.status, found.reason) == (6, reason)

    def test_wire(self, reason: str) -> None:
        (found,) = (s for s in _member().join(reason=reason) if not is_report(s))

        assert (found.status, found.reason) == (6, reason)

    def test_broker_log(self, reason: str) -> None:
        (found,) = _rejoins(reason)

        assert (found.status, found.reason) == (6, reason)


def test_every_item_has_a_test_for_every_source_that_can_meet_it() -> None:
    items = {
        name.removeprefix("Test"): vars(item)
        for name, item in inspect.getmembers(sys.modules[__name__], inspect.isclass)
        if name.startswith("Test")
    }
    missing = {
        (name, source)
        for name, item in items.items()
        for source in (_LOG, _WIRE, _BROKER, _STATS)
        if source not in item
    }

    assert len(items) == 11
    assert missing == set(_CANNOT_MEET)
