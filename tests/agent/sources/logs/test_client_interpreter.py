import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources.logs import client_interpreter as module
from agent.sources.logs.client_interpreter import ClientInterpreter
from metrics.model.signals import Signal, SignalKind
from metrics.model.status import RebalanceStatus as Status
from tests.agent.sources.lines.spoken import (
    ARRIVAL_AT,
    ASSIGNED,
    CLOSED,
    DIALECTS,
    FIRST_AT,
    JOINING,
    REBALANCING,
    got,
    log,
    parser,
    says,
    signals,
    synced,
    thread_says,
)

ONE, TWO = "s-StreamThread-1", "s-StreamThread-2"
REVOKE = "Request joining group due to: need to revoke partitions [t-0] as indicated by the current"
ENFORCED = "Request joining group due to: new fraud rules"
PROBING = "Requested to schedule probing rebalance for 1795243000694 ms."
VERSION = "Requested to schedule immediate rebalance due to version probing."
TASKS = (
    "Requested to schedule immediate rebalance for new tasks to be safely revoked from"
    " current owner."
)
ENDPOINT = (
    "Requested to schedule immediate rebalance to update group with new host endpoint = localhost:2"
)


def of_thread(text: str, thread: str = ONE) -> str:
    return says(text, client_id=f"{thread}-consumer")


def member(states: str, epoch: int = 3) -> str:
    before, after = states.split()
    return says(f"Member m-1 with epoch {epoch} transitioned from {before} to {after}.")


def streams_member(states: str) -> str:
    return member(states).replace("clientId=c", f"clientId={ONE}-consumer")


def takes(active: str) -> str:
    tasks = f"active tasks {{{active}}}, standby tasks {{}}, and warm-up tasks {{}}"
    return of_thread(f"Assigning {tasks} to the member.")


RUNNING = "State transition from PARTITIONS_ASSIGNED to RUNNING"
NEW = [member("UNSUBSCRIBED JOINING", 0), says("Cluster ID: x"), member("JOINING RECONCILING")]
STREAMS = [line.replace("clientId=c", f"clientId={ONE}-consumer") for line in NEW]
ACKNOWLEDGED = [
    streams_member("RECONCILING ACKNOWLEDGING"),
    streams_member("ACKNOWLEDGING STABLE"),
]
SETTLED = [*NEW, member("RECONCILING ACKNOWLEDGING"), member("ACKNOWLEDGING STABLE")]


class TestHeldSync:
    def test_a_sync_is_held_until_the_partitions_are_assigned(self) -> None:
        reader = parser()

        held = reader.feed(log(says(REBALANCING), says(JOINING), says(synced(2))), ARRIVAL_AT)
        rest = reader.feed(log(says(ASSIGNED)), ARRIVAL_AT)

        assert (got(held), got(rest)) == (["1", "join"], ["sync"])

    def test_a_held_sync_keeps_its_own_time(self) -> None:
        sync, _ = signals(says(synced(2)), says("Lost nothing"), says(ASSIGNED))

        assert (sync.at, sync.generation) == (FIRST_AT, 2)

    def test_a_sync_is_held_by_the_horizon(self) -> None:
        reader = parser()
        reader.feed(log(says(JOINING), says(synced(2)), says(REBALANCING)), ARRIVAL_AT)

        assert reader.horizon() == FIRST_AT + 1

    @pytest.mark.parametrize("end", [JOINING, CLOSED, synced(3)])
    def test_a_sync_whose_end_was_missed_ends_with_what_cannot_come_before(self, end: str) -> None:
        found = parser().feed(log(says(synced(2)), says(end)), ARRIVAL_AT)

        assert got(found)[0] == "sync"

    def test_a_sync_whose_end_is_not_printed_ends_in_time(self) -> None:
        """The logger ConsumerCoordinator is at WARN, or a log ends there."""
        reader = parser()
        reader.feed(log(says(synced(2)), says(REBALANCING)), ARRIVAL_AT)

        assert got(reader.release_overdue(FIRST_AT - 1)) == []
        assert got(reader.release_overdue(FIRST_AT)) == ["sync", "1"]
        assert reader.oldest_pending_at() is None

    def test_a_sync_is_over_for_a_line_that_is_later_than_max_poll_interval(self) -> None:
        later = log(says(REBALANCING))

        before = parser().feed(
            log(says(synced(2))) + later.replace(b"06:33:44", b"06:38:44"), ARRIVAL_AT
        )
        behind = parser().feed(
            log(says(synced(2))) + later.replace(b"06:33:44", b"06:38:45"), ARRIVAL_AT
        )

        assert (got(before), got(behind)) == ([], ["sync", "1"])

    def test_the_end_of_the_stream_ends_a_sync(self) -> None:
        assert got(signals(says(synced(2)), says(REVOKE))) == ["sync+10"]

    def test_a_follow_up_is_part_of_the_sync_before_it(self) -> None:
        found = signals(says(synced(2)), says(REVOKE), says(ASSIGNED), says(JOINING))

        assert got(found) == ["sync+10", "join"]
        follow_up = found[0].follow_up
        assert follow_up is not None
        assert follow_up.at == FIRST_AT + 1
        assert str(follow_up.reason).startswith("need to revoke partitions")

    @pytest.mark.parametrize(
        "follow_ups",
        [
            (of_thread(REVOKE), thread_says(TASKS)),
            (thread_says(TASKS), of_thread(REVOKE)),
        ],
    )
    def test_follow_ups_come_in_any_order(self, follow_ups: tuple[str, str]) -> None:
        found = signals(of_thread(synced(2)), *follow_ups, of_thread(ASSIGNED))

        assert got(found) == ["sync+10~10"]

    def test_a_request_before_the_partitions_are_assigned_waits_for_nothing(self) -> None:
        """The client was stuck between both; meanwhile the wire would tell what comes later."""
        reader = parser()
        asked = reader.feed(log(says(synced(2)), says(ENFORCED)), ARRIVAL_AT)
        rest = reader.feed(log(says(ASSIGNED), says(JOINING)), ARRIVAL_AT)

        assert (got(asked), got(rest)) == (["sync", "6"], ["join"])

    def test_what_an_assignment_demands_is_told_behind_such_a_request(self) -> None:
        found = signals(says(synced(2)), says(ENFORCED), says(REVOKE), says(ASSIGNED))

        assert got(found) == ["sync", "6", "10"]

    def test_a_mismatch_with_the_subscription_is_the_next_rounds_cause(self) -> None:
        mismatch = (
            "Request joining group due to: received assignment [a] does not match the current"
            " subscription [b]; it is likely that the subscription has changed"
        )

        found = parser().feed(log(says(synced(2)), says(mismatch)), ARRIVAL_AT)

        assert got(found) == ["sync", "8"]


class TestLanes:
    def test_a_held_sync_holds_back_the_other_threads_of_its_instance(self) -> None:
        reader = parser()
        before = reader.feed(
            log(of_thread(synced(2)), of_thread(REBALANCING, TWO), of_thread(synced(3), TWO)),
            ARRIVAL_AT,
        )
        other = reader.feed(log(of_thread(ASSIGNED, TWO)), ARRIVAL_AT)
        own = reader.feed(log(of_thread(ASSIGNED)), ARRIVAL_AT)

        assert (got(before), got(other), got(own)) == ([], [], ["sync", "1", "sync"])

    def test_a_held_sync_holds_back_no_other_client(self) -> None:
        reader = parser()

        found = reader.feed(log(says(synced(2)), says(REBALANCING, client_id="d")), ARRIVAL_AT)

        assert got(found) == ["1"]

    def test_a_lane_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_LANE_LIMIT", 3)

        found = parser().feed(log(says(synced(2)), *[says(REBALANCING)] * 3), ARRIVAL_AT)

        assert got(found) == ["sync", "1", "1", "1"]

    def test_a_sync_that_was_let_go_is_not_taken_up_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_LANE_LIMIT", 1)
        before, after = parser(), parser()
        before.feed(log(says(synced(2)), says(REBALANCING)), ARRIVAL_AT)

        after.restore(json.loads(json.dumps(before.state())))

        assert got(after.feed(log(says(ASSIGNED), says(JOINING)), ARRIVAL_AT)) == ["join"]


class TestStreams:
    @pytest.mark.parametrize(
        ("line", "word"),
        [(TASKS, "~10"), (PROBING, "~11"), (VERSION, "~12"), (ENDPOINT, "~13")],
    )
    def test_the_streams_layer_speaks_of_its_own_consumers_sync(self, line: str, word: str) -> None:
        found = signals(of_thread(synced(2)), thread_says(line), of_thread(ASSIGNED))

        assert got(found) == [f"sync{word}"]

    def test_a_probing_rebalance_has_its_time(self) -> None:
        text = (
            "Requested to schedule next probing rebalance at 2026-11-21 06:38:10,982 Z to try for"
            " a more balanced assignment."
        )

        found = signals(of_thread(synced(2)), thread_says(text), of_thread(ASSIGNED))

        layer = found[0].streams_follow_up
        assert layer is not None
        assert layer.due_at == pytest.approx(1795243090.982)

    def test_an_unreadable_time_of_a_probing_rebalance_is_none(self) -> None:
        text = "Requested to schedule next probing rebalance at noon Z to try for"
        text += " a more balanced assignment."

        found = signals(of_thread(synced(2)), thread_says(text), of_thread(ASSIGNED))

        layer = found[0].streams_follow_up
        assert layer is not None
        assert layer.due_at is None

    def test_a_threads_state_is_context_and_no_status(self) -> None:
        moved = thread_says("State transition from RUNNING to PARTITIONS_REVOKED")
        before, after = says(JOINING, client_id="s-StreamThread-1-consumer"), moved

        (join, seen) = signals(before, after)

        assert (join.member.state, seen.member.state) == (None, "PARTITIONS_REVOKED")
        assert (seen.kind, seen.status) == (SignalKind.SEEN, Status.NONE)

    def test_a_thread_whose_consumer_has_not_spoken_is_counted(self) -> None:
        reader = parser()

        found = reader.feed(log(of_thread(JOINING), thread_says(TASKS, TWO)), ARRIVAL_AT)

        assert isinstance(reader.interpreter, ClientInterpreter)
        assert (got(found), reader.interpreter.strangers) == (["join"], 1)

    def test_the_followup_of_now_is_the_consumers_6_and_no_code_of_the_instance(self) -> None:
        text = "Request joining group due to: triggered followup rebalance scheduled for 0"

        assert got(signals(of_thread(text))) == ["6"]

    def test_the_followup_of_a_time_is_11_on_the_instance(self) -> None:
        text = "Request joining group due to: triggered followup rebalance scheduled for 1795243000"

        assert got(signals(of_thread(text))) == ["6~11"]


class TestNoCause:
    """What is not a cause, beyond the list of `test_no_cause.py`."""

    def test_the_answer_to_a_stale_request_starts_nothing(self) -> None:
        text = (
            "Attempt to heartbeat with stale Generation{generationId=1, memberId='c-1',"
            " protocol='range'} and group instance id Optional.empty failed due to"
            " ILLEGAL_GENERATION, ignoring the error"
        )

        assert got(signals(says(synced(2)), says(ASSIGNED), says(text))[1:]) == []

    @pytest.mark.parametrize(("sent", "words"), [(1, ["sync"]), (2, ["sync", "3"])])
    def test_a_commits_answer_counts_for_its_own_generation(
        self, sent: int, words: list[str]
    ) -> None:
        text = (
            f"OffsetCommit failed with Generation{{generationId={sent}, memberId='c-1',"
            " protocol='range'}: The coordinator is not aware of this member."
        )

        assert got(signals(says(synced(2)), says(ASSIGNED), says(text))) == words

    @pytest.mark.parametrize(
        "answer",
        [
            "Request joining group due to: encountered UNKNOWN_MEMBER_ID from HEARTBEAT response",
            "Request joining group due to: encountered ILLEGAL_GENERATION from HEARTBEAT response",
            REBALANCING,
        ],
    )
    def test_an_answer_after_a_leave_starts_nothing(self, answer: str) -> None:
        assert got(signals(says(JOINING), says(CLOSED), says(answer))) == ["join", "leave"]

    def test_an_answer_after_the_next_join_counts(self) -> None:
        found = signals(says(CLOSED), says(JOINING), says(REBALANCING))

        assert got(found) == ["leave", "join", "1"]

    def test_warning_alone_about_the_poll_timeout_shows_dropped_group(self) -> None:
        assert got(signals(says("consumer poll timeout has expired. x"))) == ["5"]

    @pytest.mark.parametrize(
        "text", ["consumer poll timeout has expired. x", "Consumer poll timeout has expired. x"]
    )
    def test_a_drop_alone_is_of_a_muted_log(self, text: str) -> None:
        alone, known = signals(says(text)), signals(says(synced(2)), says(ASSIGNED), says(text))

        assert [each.is_muted for each in alone] == [True]
        assert not any(each.is_muted for each in known)

    def test_next_drop_shows_that_the_member_was_back(self) -> None:
        drop = [says("consumer poll timeout has expired. x"), *["other lines"] * 15]

        assert got(signals(*drop, *drop, *drop)) == ["5", "sync", "5", "sync", "5"]

    def test_warnings_of_the_new_protocol_alone_show_dropped_group(self) -> None:
        drop = [says("Consumer poll timeout has expired. x"), *["other lines"] * 15]

        assert got(signals(*drop, *drop)) == ["5", "sync", "5"]

    @pytest.mark.parametrize("reason", ["new fraud rules", "rebalance enforced by user"])
    def test_a_rejoin_that_is_asked_of_one_that_has_left_starts_nothing(self, reason: str) -> None:
        """enforceRebalance() after unsubscribe(): the client only notes it."""
        leave = says(
            "Member m-1 sending LeaveGroup request to coordinator x due to it unsubscribed"
        )
        asked = says(f"Request joining group due to: {reason}")

        found = signals(says(JOINING), says(synced(2)), says(ASSIGNED), leave, asked)

        assert got(found) == ["join", "sync", "leave"]

    def test_a_static_member_drops_out_without_a_leave(self) -> None:
        expired = says("consumer poll timeout has expired. This means")

        assert got(signals(says(synced(2)), says(ASSIGNED), expired, expired)) == ["sync", "5"]

    def test_a_client_without_a_group_is_nobody(self) -> None:
        assert signals(says(JOINING, group="null")) == []

    def test_a_leader_speaks_of_others(self) -> None:
        text = "Requesting followup rebalance be scheduled immediately by m due to tasks changing"

        found = signals(of_thread(synced(2)), thread_says(text), of_thread(ASSIGNED))

        assert got(found) == ["sync"]

    def test_a_classic_consumer_revokes_and_subscribes_without_a_cause(self) -> None:
        """Up to 2.3 a rejoin printed the words that mean 10 in the consumer protocol."""
        found = signals(
            says(JOINING),
            says("Revoking previously assigned partitions [t-0]"),
            says("Subscribed to topic(s): a"),
            says("Completed leaving the group"),
        )

        assert got(found) == ["join"]

    def test_a_subscription_that_comes_back_before_the_next_join_has_not_changed(self) -> None:
        one, two = says("Subscribed to topic(s): a"), says("Subscribed to topic(s): a, b")
        member = [says(synced(2)), says(ASSIGNED)]

        assert got(signals(two, says(JOINING), *member, one, two, says(JOINING))) == [
            *("join", "sync"),
            "join",
        ]
        assert got(signals(two, says(JOINING), *member, one, says(JOINING))) == [
            *("join", "sync"),
            *("8", "join"),
        ]


class TestNewProtocols:
    def test_a_member_joins_and_settles(self) -> None:
        found = signals(*SETTLED)

        assert got(found) == ["2", "sync"]
        assert {signal.member.group_type for signal in found} == {"consumer"}
        assert {signal.member.protocol_type for signal in found} == {None}
        assert found[1].generation == 3

    def test_who_joins_waits_for_the_name_of_its_cluster(self) -> None:
        reader = parser()

        first = reader.feed(log(NEW[0]), ARRIVAL_AT)
        then = reader.feed(log(NEW[1]), ARRIVAL_AT)

        assert first == []
        assert [(signal.at, signal.member.cluster) for signal in then] == [(FIRST_AT, "x")]

    def test_who_joins_a_configured_cluster_does_not_wait(self) -> None:
        assert got(parser(cluster="prod").feed(log(NEW[0]), ARRIVAL_AT)) == ["2"]

    def test_what_is_taken_away_is_10(self) -> None:
        found = signals(
            *SETTLED,
            member("STABLE RECONCILING"),
            says("Revoking previously assigned partitions [t-0]"),
            member("RECONCILING ACKNOWLEDGING"),
            member("ACKNOWLEDGING STABLE"),
        )

        assert got(found)[2:] == ["1", "10", "sync"]

    def test_what_a_killed_client_subscribes_to_when_it_starts_again_is_no_change(self) -> None:
        found = signals(
            *SETTLED,
            says("Subscribed to topic(s): t"),
            *SETTLED,
            member("STABLE RECONCILING"),
            member("RECONCILING ACKNOWLEDGING"),
            member("ACKNOWLEDGING STABLE"),
        )

        assert got(found)[2:] == ["2", "sync", "1", "sync"]

    def test_what_is_given_back_on_the_way_out_is_no_cause(self) -> None:
        found = signals(
            *SETTLED,
            member("STABLE PREPARE_LEAVING"),
            says("Revoking previously assigned partitions [t-0]"),
            member("PREPARE_LEAVING LEAVING", -1),
            member("LEAVING UNSUBSCRIBED", -1),
            says("Completed leaving the group"),
        )

        assert got(found)[2:] == ["leave"]

    def test_the_leave_of_a_poll_timeout_is_not_the_users(self) -> None:
        found = signals(
            *SETTLED,
            says("Consumer poll timeout has expired. This means the time between"),
            member("STABLE PREPARE_LEAVING"),
            member("LEAVING STALE", -1),
            member("STALE JOINING", 0),
            member("JOINING STABLE", 4),
            member("STABLE PREPARE_LEAVING", 4),
        )

        assert got(found)[2:] == ["5", "join", "sync", "leave"]

    def test_who_closes_after_a_poll_timeout_leaves_for_good(self) -> None:
        found = signals(
            *SETTLED,
            says("Consumer poll timeout has expired. This means the time between"),
            member("STABLE PREPARE_LEAVING"),
            says("Completed leaving the group"),
            says("Completed leaving the group"),
        )

        assert got(found)[2:] == ["5", "leave"]

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("ConsumerGroupHeartbeatRequest failed because member m-1 is unknown. in 9ms: x", "3"),
            ("GroupHeartbeatRequest failed for member m-1 because epoch 2 is fenced. in 0ms", "4"),
        ],
    )
    def test_a_fenced_member_comes_back(self, text: str, code: str) -> None:
        found = signals(
            *SETTLED,
            says(text),
            member("STABLE FENCED"),
            member("FENCED JOINING", 0),
            member("JOINING RECONCILING"),
            member("RECONCILING STABLE"),
        )

        assert got(found)[2:] == [code, "join", "sync"]

    def test_what_3_8_says_of_its_heartbeats_has_no_end_that_it_would_tell(self) -> None:
        text = "GroupHeartbeatRequest failed because member m-1 is unknown. in 9ms: x"

        assert signals(says("Subscribed to topic(s): a"), says(text)) == []

    @pytest.mark.parametrize("why", ["is still loading", "is incorrect", "is not available"])
    def test_a_coordinator_that_does_not_answer_is_no_cause(self, why: str) -> None:
        text = f"ConsumerGroupHeartbeatRequest failed because the group coordinator x {why}. Will"

        assert got(signals(*SETTLED, says(text)))[2:] == []

    def test_a_fatal_error_fails_and_its_close_is_no_leave(self) -> None:
        closed = says("Completed leaving the group")

        assert got(signals(*SETTLED, member("STABLE FATAL"), closed))[2:] == ["fail"]

    def test_a_changed_subscription_explains_the_change_that_follows(self) -> None:
        found = signals(
            *SETTLED, says("Subscribed to topic(s): a, b"), member("STABLE RECONCILING")
        )

        assert got(found)[2:] == ["8", "1"]
        assert (found[2].reason, found[2].at) == ("Subscribed to topic(s): a, b", found[3].at)

    def test_the_same_subscription_again_explains_nothing(self) -> None:
        again = says("Subscribed to topic(s): a, b")
        changed = [again, member("STABLE RECONCILING"), member("RECONCILING STABLE")]

        assert got(signals(*SETTLED, *changed, *changed))[2:] == ["8", "1", "sync", "1", "sync"]

    def test_a_changed_subscription_explains_nothing_later(self) -> None:
        quiet = [says("Lost nothing")] * 20

        found = signals(
            *SETTLED, says("Subscribed to topic(s): b"), *quiet, member("STABLE RECONCILING")
        )

        assert got(found)[2:] == ["1"]

    def test_a_share_consumer_is_of_a_share_group(self) -> None:
        share = [line.replace("[Consumer", "[ShareConsumer") for line in SETTLED]

        found = signals(*share)

        assert got(found) == ["2", "sync"]
        assert {signal.member.group_type for signal in found} == {"share"}

    def test_a_streams_thread_is_of_a_streams_group(self) -> None:
        streams = [line.replace("clientId=c", f"clientId={ONE}-consumer") for line in SETTLED]
        revoking = of_thread("Revoking previously assigned active tasks 0_2")
        unknown = of_thread("StreamsGroupHeartbeatRequest failed because member m is unknown. in 9")

        found = signals(*streams, revoking, unknown)

        assert got(found) == ["2", "sync", "10", "3"]
        assert {signal.member.group_type for signal in found} == {"streams"}

    def test_a_streams_group_that_became_ready_has_assigned_nothing_new(self) -> None:
        """From 4.2 a member reconciles then, too; it takes the tasks that it has."""
        again = [streams_member("STABLE RECONCILING"), takes("0_1"), *ACKNOWLEDGED]

        found = signals(*STREAMS, takes("0_1"), *ACKNOWLEDGED, *again)

        assert got(found) == ["2", "sync", "sync"]

    def test_a_streams_member_that_takes_other_tasks_was_asked_to_at_once(self) -> None:
        again = [streams_member("STABLE RECONCILING"), thread_says(RUNNING), takes("0_1, 0_2")]
        before = [*STREAMS, takes("0_1"), *ACKNOWLEDGED]

        found = signals(*before, *again, *ACKNOWLEDGED)

        assert got(found) == ["2", "sync", "1", "seen", "sync"]
        asked = next(each for each in found if each.status is Status.COORDINATOR_REQUESTED)
        assert asked.at == FIRST_AT + len(before)

    def test_a_streams_member_has_the_tasks_that_it_takes_as_the_wire_names_them(self) -> None:
        found = signals(*STREAMS, takes("0_1, 1_12"), *ACKNOWLEDGED, takes(""))

        assigned = [each.assigned for each in found if each.assigned is not None]
        assert assigned == [("0-1", "1-12"), ()]

    def test_partitions_that_a_member_gives_up_are_of_its_group_type(self) -> None:
        """KIP-848's consumers print it with the words of the classic ones (2.4 on)."""
        found = signals(*SETTLED, says("Revoke previously assigned partitions [t-0]"))

        assert {signal.member.group_type for signal in found} == {"consumer"}

    def test_a_streams_member_that_gives_a_task_back_was_asked_to(self) -> None:
        revoking = of_thread("Revoking previously assigned active tasks 0_1")
        again = [streams_member("STABLE RECONCILING"), revoking, takes("")]

        found = signals(*STREAMS, takes("0_1"), *ACKNOWLEDGED, *again, *ACKNOWLEDGED)

        assert got(found) == ["2", "sync", "1", "10", "sync"]

    def test_a_streams_member_that_has_nothing_to_take_after_all_was_asked_for_nothing(
        self,
    ) -> None:
        again = [streams_member("STABLE RECONCILING"), streams_member("RECONCILING STABLE")]

        found = signals(*STREAMS, takes("0_1"), *ACKNOWLEDGED, *again)

        assert got(found) == ["2", "sync", "sync"]

    def test_a_streams_member_whose_tasks_nobody_has_read_was_asked_to_take_others(self) -> None:
        again = [streams_member("STABLE RECONCILING"), takes("0_1"), *ACKNOWLEDGED]

        assert got(signals(*STREAMS, *ACKNOWLEDGED, *again)) == ["2", "sync", "1", "sync"]

    def test_a_client_that_goes_back_to_the_classic_protocol_is_classic_again(self) -> None:
        found = signals(*SETTLED, says(JOINING))

        assert (found[-1].member.group_type, found[-1].member.protocol_type) == (
            "classic",
            "consumer",
        )


class TestAnnounced:
    """Causes that a line before the join announces."""

    def test_changed_subscription_of_a_member_is_the_cause_of_its_join(self) -> None:
        found = signals(
            says("Subscribed to topic(s): a"),
            says(synced(2)),
            says(ASSIGNED),
            says("Subscribed to topic(s): a, b"),
            says(JOINING),
        )

        assert got(found) == ["sync", "8", "join"]

    def test_subscription_before_the_join_is_no_cause(self) -> None:
        assert got(signals(says("Subscribed to topic(s): a"), says(JOINING))) == ["join"]

    def test_printed_cause_precedes_the_announced_one(self) -> None:
        found = signals(
            says(synced(2)),
            says(ASSIGNED),
            says("Subscribed to topic(s): a, b"),
            says("Request joining group due to: subscription has changed from x to y"),
            says(JOINING),
        )

        assert got(found) == ["sync", "8", "join"]

    def test_updated_configuration_is_the_cause_of_a_workers_join(self) -> None:
        found = signals(
            says(synced(2), kind="Worker"),
            says("Joined group at generation 2 with", kind="Worker"),
            says("Tasks [a-0, a-1] configs updated", kind="Worker"),
            says(JOINING, kind="Worker"),
        )

        assert got(found) == ["sync", "7", "join"]


class TestClientsWithoutNames:
    """Logs that leave out the client's name, or the group's."""

    def test_group_identifies_a_client_of_old_kafka_python(self) -> None:
        found = signals(
            "Successfully joined group g with generation 2",
            "Heartbeat: local member_id was not recognized; this consumer needs to re-join",
            "Successfully joined group g with generation 4",
        )

        assert got(found) == ["sync", "3", "sync"]
        assert {(signal.member.group, signal.member.client_id) for signal in found} == {("g", "")}

    def test_text_of_librdkafka_decides_whatever_stands_before_it(self) -> None:
        dropped = (
            "Application maximum poll interval (300000ms) exceeded by 88ms (adjust "
            "max.poll.interval.ms for long-running message processing): leaving group"
        )
        heads = {
            "WARN librdkafka: librdkafka: MAXPOLL [thrd:main]: ": "",
            "[client.id:a] [rdk:MAXPOLL] [thrd:main]: ": "a",
            "Handle: a#consumer-1\tLevel: Warning\tMessage:[thrd:main]: ": "a",
            "[a#consumer-1][MAXPOLL][4][thrd:main]: ": "a",
            "%4|1795242824.000|MAXPOLL|a#consumer-1| [thrd:main]: ": "a",
            "RDKAFKA-4-MAXPOLL: a#consumer-1: ": "a",
        }

        for head, client_id in heads.items():
            (found,) = signals(head + dropped)
            assert (got([found]), found.member.client_id) == (["5"], client_id)

    def test_member_id_names_a_client_that_its_binding_does_not(self) -> None:
        uuid = "0a1b2c3d-0000-1111-2222-0123456789ab"
        found = signals(
            f'[thrd:main]: Group "g": updating member id "" -> "m-{uuid}"',
            '[thrd:main]: Group "g" heartbeat error response in state up: Broker: Group rebalance '
            "in progress",
        )

        assert got(found) == ["1"]
        assert (found[0].member.client_id, found[0].member.group) == ("m", "g")

    def test_two_groups_without_names_are_not_guessed(self) -> None:
        found = signals(
            "Successfully joined group g with generation 2",
            "Successfully joined group h with generation 2",
            "Heartbeat: local member_id was not recognized; this consumer needs to re-join",
        )

        assert got(found) == ["sync", "sync"]


def reads(found: Sequence[Signal]) -> list[tuple[str, ...]]:
    """Return the partitions that signals report."""
    return [signal.assigned for signal in found if signal.assigned is not None]


def test_java_process_without_a_leave_left_its_partitions() -> None:
    """Before 2.3 no line shows a subscription: the successor's first revocation names none."""
    java = "[Consumer clientId=c1, groupId=g] "
    revoking = f"{java}Revoking previously assigned partitions"
    none, all_ = f"{revoking} []", f"{revoking} [t-0, t-1]"
    rounds = [
        [
            f"{java}(Re-)joining group",
            f"{java}Successfully joined group with generation {generation}",
            f"{java}Setting newly assigned partitions [t-0, t-1]",
        ]
        for generation in (1, 2, 3)
    ]

    found = signals(none, *rounds[0], all_, *rounds[1], none, *rounds[2], all_)

    assert reads(found) == [(), *[("t-0", "t-1"), ()] * 3]


class TestPython:
    UUID = "0a1b2c3d-0000-1111-2222-0123456789ab"

    def test_kafka_python_names_its_client_in_its_member_id(self) -> None:
        found = signals(
            f"Received member id m-1-{self.UUID} for group g; will retry join-group",
            f"Successfully joined group g <Generation 2 (member_id: m-1-{self.UUID},"
            " protocol: range)>",
            "Setting newly assigned partitions {} for group g",
            "Consumer poll timeout has expired. This means",
            f"Leaving consumer group g (member m-1-{self.UUID}).",
        )

        assert got(found) == ["2", "join", "sync", "5"]
        assert {signal.member.client_id for signal in found} == {"m-1"}

    def test_a_cooperative_follow_up_holds_the_zero(self) -> None:
        found = signals(
            f"Received member id m-{self.UUID} for group g; will retry join-group",
            "Cooperative rebalance complete for group g: owned=set(), assigned=set(),"
            " revoked={TopicPartition(topic='t', partition=0)}, added=set()",
            "Cooperative rebalance complete for group g: owned=set(), assigned=set(),"
            " revoked=set(), added=set()",
        )

        assert got(found) == ["2", "10", "sync"]

    def test_an_eager_member_gives_all_up_before_it_joins(self) -> None:
        zero, one = (f"TopicPartition(topic='t', partition={number})" for number in range(2))
        for client in (
            f"Successfully joined group g <Generation 1 (member_id: m-{self.UUID}, protocol: x)>",
            f"Joined group 'g' (generation 1) with member_id m-{self.UUID}",  # aiokafka
            "Successfully joined group g with generation 1",  # kafka-python 2.1
        ):
            found = signals(
                "Revoking previously assigned partitions set() for group g",
                client,
                f"Setting newly assigned partitions {{{zero}, {one}}} for group g",
                f"Revoking previously assigned partitions frozenset({{{one}, {zero}}}) for group g",
                f"Setting newly assigned partitions {{{one}}} for group g",
                f"Revoking previously assigned partitions {{{one}}} for group g on close",
            )

            assert reads(found) == [("t-0", "t-1"), (), ("t-1",), ()]

    def test_a_process_that_was_killed_left_its_partitions(self) -> None:
        """Its successor names none."""
        found = signals(
            f"Joined group 'g' (generation 1) with member_id m-{self.UUID}",
            "Setting newly assigned partitions {TopicPartition(topic='t', partition=0)} for"
            " group g",
            "Revoking previously assigned partitions set() for group g",
        )

        assert reads(found) == [("t-0",), ()]

    def test_a_cooperative_member_reads_what_it_is_assigned(self) -> None:
        zero, one = (f"{{TopicPartition(topic='t', partition={number})}}" for number in range(2))
        complete = "Cooperative rebalance complete for group g: owned="
        found = signals(
            f"Received member id m-{self.UUID} for group g; will retry join-group",
            f"{complete}set(), assigned={zero}, revoked=set(), added={zero}",
            f"{complete}{zero}, assigned={one}, revoked={zero}, added={one}",
            f"{complete}{one}, assigned=set(), revoked={one}, added=set()",
        )

        assert reads(found) == [("t-0",), ("t-1",), ()]

    def test_of_two_consumers_of_a_group_nobody_knows_who_reads_what(self) -> None:
        two = [
            f"Successfully joined group g <Generation 1 (member_id: {client}-{self.UUID},"
            " protocol: range)>"
            for client in "mn"
        ]
        takes = (
            "Setting newly assigned partitions {TopicPartition(topic='t', partition=0)} for group g"
        )

        assert reads(signals(*two, takes, takes)) == []

    def test_a_line_that_names_nobody_is_the_only_clients(self) -> None:
        joined = [
            f"Joined group '{group}' (generation 1) with member_id m-{self.UUID}" for group in "gh"
        ]

        one = signals(joined[0], "LeaveGroup request succeeded")
        two = signals(*joined, "LeaveGroup request succeeded")

        assert (got(one), got(two)) == (["join", "leave"], ["join", "join"])

    def test_a_group_stands_for_a_member_that_no_line_names(self) -> None:
        (found,) = signals("Heartbeat failed for group g because it is rebalancing")

        assert (found.member.group, found.member.client_id) == ("g", "")

    def test_a_cause_waits_for_its_member_ten_seconds(self) -> None:
        repeated = "Heartbeat failed for group g because it is rebalancing"
        reader = parser()

        waits = reader.feed(log(*[repeated] * 11), ARRIVAL_AT)
        horizon = reader.horizon()
        (found, *_) = reader.feed(log(*[repeated] * 12), ARRIVAL_AT)

        assert (waits, horizon) == ([], FIRST_AT)
        assert (found.at, found.member.client_id) == (FIRST_AT, "")

    def test_a_cause_that_waits_stands_in_the_checkpoint(self) -> None:
        first, second = parser(), parser()

        first.feed(log("Heartbeat failed for group g because it is rebalancing"), ARRIVAL_AT)
        second.restore(json.loads(json.dumps(first.state())))
        (found,) = second.flush()

        assert (found.at, found.member.group) == (FIRST_AT, "g")


class TestIdentity:
    def test_a_stranger_under_the_same_name_is_another_one(self) -> None:
        second, first = signals(says(synced(2)), says(JOINING, group="h"))

        assert (first.kind, first.member.group) == (SignalKind.SYNC, "g")
        assert (second.member.group, second.generation) == ("h", None)

    def test_the_member_learns_its_names(self) -> None:
        found = signals(says("Cluster ID: abc"), says(synced(7)), says(ASSIGNED))

        member = found[0].member
        assert (member.cluster, member.member_id, member.assignor) == ("abc", "c-1", "range")
        assert found[0].generation == 7

    def test_a_configured_cluster_stays(self) -> None:
        (found,) = parser(cluster="prod").feed(
            log(says("Cluster ID: abc"), says(REBALANCING)), ARRIVAL_AT
        )

        assert found.member.cluster == "prod"

    def test_clients_are_bounded_and_the_longest_silent_goes_with_its_sync(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_CLIENT_LIMIT", 2)
        reader = parser()

        found = reader.feed(
            log(says(synced(2), "a"), *(says(JOINING, name) for name in "bcd")), ARRIVAL_AT
        )

        assert [signal.member.client_id for signal in found] == ["b", "c", "a", "d"]
        assert isinstance(reader.interpreter, ClientInterpreter)
        assert len(reader.interpreter.clients) <= 3
        assert reader.eviction_count == 4 - len(reader.interpreter.clients)
        assert reader.horizon() == reader.last_at


STORY = [
    says(JOINING),
    says(synced(1)),
    says(REVOKE),
    of_thread(synced(4)),
    thread_says(PROBING),
    of_thread(REBALANCING, TWO),
    says(ASSIGNED),
    says(CLOSED.replace("the consumer is being closed", "consumer poll timeout has expired.")),
    of_thread(ASSIGNED),
    of_thread(synced(5), TWO),
    *(line.replace("clientId=c", "clientId=n") for line in SETTLED),
    says("Subscribed to topic(s): a", "n"),
    member("STABLE RECONCILING").replace("clientId=c", "clientId=n"),
    says(CLOSED),
    says(REBALANCING),
    *STREAMS,
    takes("0_1"),
    streams_member("STABLE RECONCILING"),
    of_thread(REBALANCING, TWO),
    takes("0_1, 0_2"),
    *ACKNOWLEDGED,
]


UNREGISTERED = "INFO App info kafka.consumer for c unregistered (org.apache.kafka.common.utils.X)"


class TestClosedConsumer:
    def test_one_that_has_not_left_is_reported(self) -> None:
        """Static members and Streams threads send no LeaveGroup: the others wait."""
        found = signals(says(JOINING), says(synced(1)), says(ASSIGNED), UNREGISTERED)

        assert [each.closes for each in found][-1:] == [True]
        assert sum(each.closes for each in found) == 1
        assert {each.member.client_id for each in found} == {"c"}

    def test_one_that_has_left_is_not(self) -> None:
        found = signals(says(JOINING), says(synced(1)), says(ASSIGNED), says(CLOSED), UNREGISTERED)

        assert not any(each.closes for each in found)

    def test_one_of_a_new_protocol_keeps_its_group_type(self) -> None:
        found = signals(*SETTLED, UNREGISTERED)

        assert found[-1].closes
        assert {each.member.group_type for each in found} == {"consumer"}

    def test_one_that_never_joined_is_not(self) -> None:
        assert signals(UNREGISTERED) == []


SINCE = "Requesting to re-join the group and trigger rebalance since the"
SUBSCRIPTION = f"{SINCE} subscription has changed from [a] to [b]"
METADATA = f"{SINCE} assignment metadata has changed from (version3: {{a=4}}) to (version5: {{b=2}}"


class TestMemberThatComesBack:
    """Java 2.7 and 2.8 compare a new subscription with the one before they left."""

    def test_it_is_a_new_member_whatever_it_read_before(self) -> None:
        lines = [says(JOINING), says(synced(1)), says(ASSIGNED), says(CLOSED), says(SUBSCRIPTION)]
        lines += [says(JOINING), says(METADATA), says(JOINING), says(synced(3))]

        found = got(signals(*lines, says(ASSIGNED)))

        assert found == ["join", "sync", "leave", "join", "join", "sync"]

    def test_a_change_after_its_sync_counts(self) -> None:
        lines = [says(JOINING), says(synced(1)), says(ASSIGNED), says(CLOSED), says(JOINING)]

        found = got(signals(*lines, says(synced(3)), says(ASSIGNED), says(METADATA)))

        assert found[-1:] == ["7"]

    def test_a_change_in_a_log_that_begins_in_the_middle_counts(self) -> None:
        assert got(signals(says(SUBSCRIPTION))) == ["8"]


def take(reader: ClientInterpreter, line: str) -> list[Signal]:
    events = (reading.read(line) for reading in DIALECTS.matchers)
    event = next((event for event in events if event is not None), None)
    return [] if event is None else reader.take(event, FIRST_AT + STORY.index(line))


def whole_story() -> list[Signal]:
    reader = ClientInterpreter(stream="s")
    return [signal for line in STORY for signal in take(reader, line)] + reader.flush()


@given(st.integers(0, len(STORY)), st.integers(0, len(STORY)))
def test_a_restart_at_any_point_changes_nothing(one: int, two: int) -> None:
    first, second = sorted((one, two))
    reader, found = ClientInterpreter(stream="s"), list[Signal]()

    for piece in (STORY[:first], STORY[first:second], STORY[second:]):
        state = json.loads(json.dumps(reader.state()))  # as a checkpoint keeps it
        reader = ClientInterpreter(stream="s")
        reader.restore(state)
        found += [signal for line in piece for signal in take(reader, line)]
    found += reader.flush()

    assert found == whole_story()


class TestAssignments:
    """Lines about partitions show what the client reads from then on."""

    def test_added_and_revoked_partitions_add_up(self) -> None:
        found = signals(
            says(synced(1)),
            says("Adding newly assigned partitions: t-0, t-1"),
            says("Revoke previously assigned partitions t-1"),
            says("Adding newly assigned partitions: "),
            says("Lost previously assigned partitions t-0"),
        )

        assert reads(found) == [("t-0", "t-1"), ("t-0",), ("t-0",), ()]

    def test_new_member_has_no_partitions_until_it_is_assigned_some(self) -> None:
        """A process that was killed logs no revocation; its successor may get the same ones."""
        takes_one = says("Adding newly assigned partitions: t-0")
        rejoins = says("Request joining group due to: need to re-join with the given member-id")
        found = signals(says(synced(1)), takes_one, rejoins, says(synced(2)), takes_one)

        assert reads(found) == [("t-0",), (), ("t-0",)]

    def test_a_report_stands_behind_the_sync_that_it_follows(self) -> None:
        found = signals(says(synced(1)), says("Adding newly assigned partitions: t-0"))

        assert [(s.kind, s.assigned) for s in found] == [
            (SignalKind.SYNC, None),
            (SignalKind.SEEN, ("t-0",)),
        ]
