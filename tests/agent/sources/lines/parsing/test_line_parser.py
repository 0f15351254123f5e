import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.sources.lines.parsing.line_parser import LINE_LIMIT, LineParser
from metrics.model.signals import Signal
from tests.agent.sources.lines.spoken import (
    ARRIVAL_AT,
    ASSIGNED,
    CLOSED,
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

THREAD = "s-StreamThread-1"
TASKS = "Requested to schedule immediate rebalance due to version probing."
STORY = log(
    "Starting application",
    says(JOINING),
    says(synced(1)),
    says(ASSIGNED),
    says(REBALANCING),
    says("Nothing of note"),
    says(synced(2), client_id=f"{THREAD}-consumer"),
    thread_says(TASKS, THREAD),
    says(ASSIGNED, client_id=f"{THREAD}-consumer"),
    "日本語の行 [Consumer clientId=é, groupId=g] (Re-)joining group",
    says(CLOSED),
)
TOLD = ["join", "sync", "1", "sync~12", "join", "leave"]

CRI = "".join(
    f"2026-11-21T06:33:{44 + i}.000000000Z stdout F {line}\n"
    for i, line in enumerate(
        [says(JOINING), says(synced(1)), says(ASSIGNED), says(REBALANCING), says(CLOSED)]
    )
).encode()
CRI_PIECES = (
    b"2026-11-21T06:33:44Z stdout P [Consumer clientId=c, groupId=g] "
    b"Request joining group due to: a\n"
    b"2026-11-21T06:33:45Z stderr F another stream between\n"
    b"2026-11-21T06:33:46Z stdout P  long long\n"
    b"2026-11-21T06:33:47Z stdout F  reason\n"
)


MESSAGES = (JOINING, synced(1), ASSIGNED, REBALANCING, synced(2), ASSIGNED, CLOSED)
JAVA_UTIL_LOGGING = "".join(
    f"Nov 21, 2026 6:33:{44 + i} AM org.apache.kafka.C m\nINFO: {says(message)}\n"
    for i, message in enumerate(MESSAGES)
).encode()
PAYARA = "".join(
    f"[2026-11-21T06:33:{44 + i}.000+0000] [Payara 5.2] [INFO] [] [org.apache.kafka.C] [[\n"
    f"  {says(message)}]]\n\n"
    for i, message in enumerate(MESSAGES)
).encode()
WEBLOGIC = "".join(
    f"<Nov 21, 2026 6:33:{44 + i} AM UTC> <Info> <Kafka> <BEA-000000> <{says(message)}> \n"
    for i, message in enumerate(MESSAGES)
).encode()

JOURNAL = "".join(
    json.dumps(
        {
            "__REALTIME_TIMESTAMP": f"{(int(FIRST_AT) + i) * 1_000_000}",
            "MESSAGE": list(f"\x1b[32mINFO\x1b[0m {says(message)} \xff".encode("latin-1")),
            "_PID": "12",
        }
    )
    + "\n"
    for i, message in enumerate(MESSAGES)
).encode()


def fed(data: bytes, cuts: list[int]) -> list[Signal]:
    reader, found, start = parser(), list[Signal](), 0
    for cut in [*sorted(cuts), len(data)]:
        found += reader.feed(data[start:cut], ARRIVAL_AT)
        start = cut
    return found + reader.flush()


def test_a_log_is_read_in_one_piece() -> None:
    assert got(fed(STORY, [])) == TOLD


@pytest.mark.parametrize("data", [JAVA_UTIL_LOGGING, PAYARA, WEBLOGIC, JOURNAL])
def test_layouts_of_servers_are_read_as_any_other(data: bytes) -> None:
    plain = fed(log(*map(says, MESSAGES)), [])

    found = fed(data, [])

    assert got(found) == got(plain)
    assert [signal.at for signal in found] == [signal.at for signal in plain]


BOUNDS = datetime(1971, 1, 1), datetime(2200, 1, 1)  # noqa: DTZ001
STORIES = [STORY, CRI, CRI_PIECES, STORY.rstrip(b"\n"), JAVA_UTIL_LOGGING, PAYARA, JOURNAL]


@pytest.mark.parametrize("data", STORIES)
def test_byte_by_byte_is_the_same(data: bytes) -> None:
    assert fed(data, list(range(len(data)))) == fed(data, [])


@given(st.lists(st.integers(0, len(STORY)), max_size=20))
def test_any_pieces_are_the_same(cuts: list[int]) -> None:
    assert fed(STORY, cuts) == fed(STORY, [])


@pytest.mark.parametrize("cut", range(1, 4))
def test_a_restart_between_the_pieces_of_a_line_changes_nothing(cut: int) -> None:
    lines = CRI_PIECES.splitlines(keepends=True)
    before = parser()
    found = before.feed(b"".join(lines[:cut]), ARRIVAL_AT)
    after = parser()
    after.restore(json.loads(json.dumps(before.state())))

    found += after.feed(b"".join(lines[cut:]), ARRIVAL_AT) + after.flush()

    assert found == fed(CRI_PIECES, [])


@given(st.integers(0, len(STORY)))
def test_a_restart_behind_the_last_complete_line_changes_nothing(cut: int) -> None:
    before = parser()
    found = before.feed(STORY[:cut], ARRIVAL_AT)
    state = json.loads(json.dumps(before.state()))
    after = parser()

    after.restore(state)
    found += after.feed(STORY[cut - before.pending :], ARRIVAL_AT) + after.flush()

    assert found == fed(STORY, [])


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400), st.binary(max_size=400))
@example(b"\x00" * 100, b"\xff\xfe")
@example(b"[Consumer ", b"roup #consumer-1 stream-thread [")
@example(b"{", b'{"log": 1, "message": {"a": []}}\n')
@example("[Consumer clientId=ä, groupId=ö] ".encode("latin-1"), b"\r\n\r\r\n")
def test_junk_around_lines_changes_nothing(before: bytes, after: bytes) -> None:
    data = before + b"\n" + log(says(REBALANCING)) + after

    found = fed(data, [])

    assert got(found) == ["1"]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60))
def test_a_text_of_nobodys_is_no_status(client: str, group: str, text: str) -> None:
    line = f"[Consumer clientId={client}, groupId={group}] x{text}"

    found = fed(line.encode("utf-8", "replace"), [])

    assert "Request joining" in line or not [s for s in found if s.status]


@pytest.mark.parametrize(
    "line",
    [
        "[Consumer clientId=c, groupId=g] Gruppe wird neu verteilt: Mitglied beigetreten",
        "[Consumer clientId=c, groupId=g] 正在重新加入群组",
        "java.lang.IllegalStateException: (Re-)joining group",
        "\tat org.apache.kafka.clients.consumer.KafkaConsumer.poll(KafkaConsumer.java:1)",
        "\tsession.timeout.ms = 6000 rebalance.endpoint = [Consumer clientId=c]",
        "The user said: group g is rebalancing; rejoining.",
    ],
)
def test_another_language_and_others_words_say_nothing(line: str) -> None:
    assert signals(line) == []


def test_invalid_utf_8_is_kept_apart_from_what_is_read() -> None:
    data = b"\xff\xfe[2026-11-21 06:33:44,000] INFO [Consumer clientId=c, groupId=g] "
    data += b"Request joining group due to: caf\xe9\n"

    (found,) = fed(data, [])

    assert (found.status, found.reason) == (6, "caf\ufffd")


class TestLongLines:
    def test_a_line_of_10_mib_is_passed_over(self) -> None:
        junk = b"x" * (10 << 20)

        found = fed(junk + b"\n" + log(says(REBALANCING)), [])

        assert got(found) == ["1"]

    @pytest.mark.parametrize("piece", [1 << 16, 1 << 24])
    def test_what_is_kept_of_a_line_is_bounded(self, piece: int) -> None:
        line = says("Request joining group due to: ").encode() + b"x" * (10 << 20)
        data = line + b"\n" + log(says(REBALANCING))
        reader, most, found = parser(), 0, list[Signal]()

        for start in range(0, len(data), piece):
            found += reader.feed(data[start : start + piece], ARRIVAL_AT)
            most = max(most, reader.pending)

        assert got(found) == ["1"]
        assert most <= LINE_LIMIT

    def test_a_line_in_pieces_that_is_too_long_is_counted(self) -> None:
        reader = parser()
        reader.feed(b"x" * (LINE_LIMIT + 1), ARRIVAL_AT)

        reader.feed(b"x\n", ARRIVAL_AT)

        assert reader.counts.long == 1


class TestEnvelopes:
    def test_a_line_that_the_runtime_cut_is_joined(self) -> None:
        (found,) = fed(CRI_PIECES, [])

        assert (found.status, found.reason) == (6, "a long long reason")

    def test_a_piece_that_nothing_ends_is_nobodys(self) -> None:
        assert (
            fed(b"2026-11-21T06:33:44Z stdout P [Consumer clientId=c, groupId=g] (Re-)\n", []) == []
        )

    @pytest.mark.parametrize(
        "wrap",
        [
            lambda text: {"@timestamp": "2026-11-21T06:33:44.5Z", "message": text, "level": "INFO"},
            lambda text: {"timeMillis": 1795242824500, "message": text, "loggerName": "o.a.k"},
            lambda text: {"log": f"[2026-11-21 06:33:44,500] INFO {text}\n", "stream": "stdout"},
            lambda text: {"instant": {"epochSecond": 1795242824}, "message": text},
        ],
    )
    def test_json_is_read(self, wrap: Callable[[str], object]) -> None:
        reason = 'deploy "payments" \\ now'
        line = json.dumps(wrap(says(f"Request joining group due to: {reason}")))

        (found,) = fed(line.encode() + b"\n", [])

        assert (found.status, found.reason) == (6, reason)


class TestTimes:
    def test_a_line_has_its_own_time(self) -> None:
        (found,) = signals(says(REBALANCING))

        assert found.at == FIRST_AT

    def test_the_only_line_of_a_log_has_its_own_time_without_a_newline(self) -> None:
        (found,) = fed(log(says(REBALANCING)).rstrip(b"\n"), [])

        assert found.at == FIRST_AT

    def test_a_log_without_times_is_of_its_arrival(self) -> None:
        (found,) = fed(says(REBALANCING).encode() + b"\n", [])

        assert found.at == ARRIVAL_AT

    def test_the_second_line_of_an_entry_has_the_first_ones_time(self) -> None:
        data = log(says(REBALANCING)) + says(JOINING).encode() + b"\n"

        assert [signal.at for signal in fed(data, [])] == [FIRST_AT, FIRST_AT]

    def test_a_clock_that_steps_back_turns_no_time_back(self) -> None:
        back = log(says(REBALANCING)).replace(b"06:33:44", b"05:33:44")
        reader = parser()

        found = reader.feed(log(says(JOINING)) + back, ARRIVAL_AT)

        assert [signal.at for signal in found] == [FIRST_AT, FIRST_AT + 0.001]
        assert reader.counts.ran_back == 1

    def test_a_clock_that_steps_back_runs_on_until_it_has_caught_up(self) -> None:
        stamps = ["06:30:00", "06:28:00", "06:28:30", "06:31:00", "06:31:05"]
        lines = [f"[2026-11-25 {at},000] {says(JOINING)}" for at in stamps]

        found = fed("\n".join(lines).encode() + b"\n", [])

        steps = [round(signal.at - found[0].at, 3) for signal in found]
        assert steps == [0.0, 0.001, 30.001, 60.0, 65.0]

    def test_a_late_line_of_another_thread_has_the_time_of_the_last_one(self) -> None:
        stamps = ["06:30:00", "06:29:58", "06:29:59", "06:30:01"]
        lines = [f"[2026-11-25 {at},000] {says(JOINING)}" for at in stamps]

        found = fed("\n".join(lines).encode() + b"\n", [])

        assert [round(signal.at - found[0].at, 3) for signal in found] == [0.0, 0.0, 0.0, 1.0]

    def test_a_clock_that_is_ahead_of_the_arrival_is_not_believed(self) -> None:
        ahead = log(says(REBALANCING)).replace(b"2026-", b"2099-")
        reader = parser()

        (found,) = reader.feed(ahead, ARRIVAL_AT)

        assert (found.at, reader.counts.ahead) == (ARRIVAL_AT, 1)

    @given(st.lists(st.datetimes(*BOUNDS), max_size=20, unique_by=str))
    def test_times_never_run_back_and_no_jump_makes_a_status(self, times: list[datetime]) -> None:
        lines = [f"[{at.replace(tzinfo=None):%Y-%m-%d %H:%M:%S}] {says(JOINING)}" for at in times]

        found = fed("\n".join(lines).encode(), [])

        assert [signal.at for signal in found] == sorted(signal.at for signal in found)
        assert got(found) == ["join"] * len(times)


def test_the_class_and_line_that_printed_a_text_are_not_part_of_it() -> None:
    where = "(org.apache.kafka.clients.consumer.internals.ConsumerCoordinator%s)"
    reason = "cached metadata has changed from (version1: {}) to (version2: {})"
    lines = [
        says(f"{text} {where % number}")  # Connect's own layout tells the line, too
        for text in (JOINING, f"Request joining group due to: {reason}")
        for number in ("", ":1084")
    ]

    found = parser().feed(log(*lines), ARRIVAL_AT)

    assert got(found) == ["join", "join", "7", "7"]
    assert [signal.reason for signal in found[2:]] == [reason] * 2


class TestFamilies:
    def test_a_stream_that_speaks_java_is_read_as_java(self) -> None:
        python = "Heartbeat failed for group g because it is rebalancing"
        joined = "Joined group 'g' (generation 1) with member_id m-0a1b2c3d-0-1-2-3"

        reader = parser()
        found = reader.feed(log(says(JOINING), joined, python), ARRIVAL_AT)

        assert (got(found), reader.family) == (["join"], "java")

    def test_a_worker_of_connect_shares_its_log_with_its_consumers(self) -> None:
        worker = says(JOINING, client_id="w").replace("Consumer", "Worker")
        own = says("Cluster ID: k", client_id="w-offsets")  # it never joins

        reader = parser()
        found = reader.feed(log(own, worker, says(JOINING), worker), ARRIVAL_AT)

        assert (got(found), reader.family) == (["join"] * 3, "connect")

    @pytest.mark.parametrize("before", [[], [says(JOINING)]])
    def test_a_sink_tasks_consumer_tells_of_the_worker_beside_it(self, before: list[str]) -> None:
        worker = says(JOINING, client_id="w").replace("Consumer", "Worker")
        sink = says(JOINING, client_id="connector-consumer-sink-0", group="connect-sink")

        reader = parser()
        found = reader.feed(log(*before, sink, worker, sink), ARRIVAL_AT)

        names = [signal.member.client_id for signal in found[len(before) :]]
        assert names == ["connector-consumer-sink-0", "w", "connector-consumer-sink-0"]
        assert reader.family == "connect"

    def test_streams_words_are_looked_for_where_streams_threads_speak(self) -> None:
        reader = parser()
        first = reader.feed(log(says(JOINING), thread_says(TASKS, THREAD)), ARRIVAL_AT)
        reader.feed(log(says(JOINING, client_id=f"{THREAD}-consumer")), ARRIVAL_AT)

        then = reader.feed(log(thread_says(TASKS, THREAD)), ARRIVAL_AT)

        assert (got(first), got(then)) == (["join"], ["0~12"])

    def test_lines_tell_what_read_them(self) -> None:
        lines = list(parser().lines(log("x", says(JOINING), says("Hello")), ARRIVAL_AT))

        read = [line.event.rule.name for line in lines if line.event is not None]
        assert read == ["joining"]


def test_a_reader_starts_without_a_horizon() -> None:
    reader: LineParser = parser()

    assert reader.horizon() is None
    assert datetime.fromtimestamp(FIRST_AT, UTC).isoformat() == "2026-11-21T06:33:44+00:00"


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "again",
    [
        "[Consumer clientId=m1",
        "[Consumer clientId=m1, groupId=g] ",
        "[Consumer clientId=m, groupId=g] Member m sending LeaveGroup request to coordinator 127.0",
        "[Consumer clientId=m, groupId=g] Successfully joined group with generation Generation{'",
        "stream-thread [s-StreamThread-",
        "Join group failed for group ",
        '%7|1|JOIN|c#consumer-1| [thrd:main]: Group "g": ',
    ],
)
def test_a_line_that_says_the_same_again_and_again_is_read_through(again: str) -> None:
    """Without bounds it takes its length's cube: this one days, and no other is read meanwhile."""
    again *= 150_000 // len(again)

    assert got(signals(again, says(JOINING), says(synced(1))))[-2:] == ["join", "sync"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "message",
    ["Cluster ID: m", "Request joining group due to: need to re-join with the given member-id: m"],
)
@pytest.mark.parametrize(
    "again", [" ", '" ', " [a", " x.y", " (org.apache.kafka.C) [", " (org.apache.kafka.C) [a] "]
)
def test_what_a_layout_may_put_behind_again_and_again_is_read_through(
    message: str, again: str
) -> None:
    """Each character may be the end of the message: no check may take the line's whole length."""
    behind = again * (150_000 // len(again))

    found = signals(says(f"{message}{behind}x"), says(JOINING), says(synced(1)))

    assert got(found)[-2:] == ["join", "sync"]
