import pytest

from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from agent.sources.logs.partition_budget import NAMED_MAX
from agent.sources.logs.partition_lists import read_partitions

TWO_TOPICS = {"a.b_c-d-0", "a.b_c-d-11", "u-3"}
OF_PYTHON = ", ".join(
    f"TopicPartition(topic='{topic}', partition={number})"
    for topic, number in (("u", 3), ("a.b_c-d", 0), ("a.b_c-d", 11))
)


@pytest.mark.parametrize(
    "text",
    [
        "[a.b_c-d-0, a.b_c-d-11, u-3]",
        "a.b_c-d-0, a.b_c-d-11, u-3",
        f"{{{OF_PYTHON}}}",
        f"frozenset({{{OF_PYTHON}}})",
        "set([{}])".format(OF_PYTHON.replace("='", "=u'")),
        "[a.b_c-d-0, a.b_c-d-11, u-3] (o.a.k.c.c.i.ConsumerCoordinator)",
        "a.b_c-d-0, a.b_c-d-11, u-3 (com.acme.org.apache.kafka.ConsumerCoordinator)",
        "[a.b_c-d-0, a.b_c-d-11, u-3] [thread-1]",
        "a.b_c-d-0, a.b_c-d-11, u-3 trace=4f-1",
        "a.b_c-d[0 11], u[3]",
        "a.b_c-d(3ieaC+sx/ECA)[0], a.b_c-d(3ieaC+sx/ECA)[11], u(PMqzEaj2TZWTd1WMX5avzQ)[3]",
        "map[a.b_c-d:[0 11] u:[3]]",
        '{"a.b_c-d":[0,11],"u":[3]}',
        "{topic:a.b_c-d partition:0}:-2 {topic:a.b_c-d partition:11}:7 {topic:u partition:3}:-1",
        '{"a.b_c-d": [0, 11], "u": [3]}',
    ],
)
def test_every_form_names_the_same(text: str) -> None:
    assert read_partitions(text) == TWO_TOPICS


@pytest.mark.parametrize("text", ["", " ", "[]", "{}", "set()", "frozenset()", "map[]", "t[]", "x"])
def test_a_list_of_nothing_is_empty(text: str) -> None:
    assert read_partitions(text) == frozenset()


def test_tasks_are_named_as_on_the_wire() -> None:
    assert read_partitions("{0_1, 1_3}") == {"0-1", "1-3"}


class TestTargets:
    """KIP-848 without a rebalance listener: the assignment stands below "Reconciling" alone."""

    HEAD = "[2026-11-27 14:02:{}] INFO [Consumer clientId=m1, groupId=g] {} (org.apache.kafka.x)"

    def block(self, second: str, assigned: str, owned: str) -> str:
        rows = {"Member": "x", "Assigned partitions": assigned, "Current owned partitions": owned}
        lines = "".join(f"\t{name + ':':<43}{text}\n" for name, text in rows.items())
        head = self.HEAD.partition(" (")[0].format(
            second, "Reconciling assignment with local epoch 1"
        )
        return f"{head}\n{lines} (org.apache.kafka.x)\n"

    def state(self, second: str, states: str) -> str:
        text = f"Member x with epoch 2 transitioned from {states}."
        return self.HEAD.format(second, text) + "\n"

    def read(self, *lines: str) -> list[tuple[float, tuple[str, ...]]]:
        parser = create_parser(choose_dialects("auto"), ClientInterpreter(stream="app.log"), "UTC")
        found = [*parser.feed("".join(lines).encode(), 1_900_000_000.0), *parser.flush()]
        return [
            (round(each.at % 60, 3), each.assigned) for each in found if each.assigned is not None
        ]

    def test_assignment_counts_from_its_acknowledgement(self) -> None:
        found = self.read(
            self.state("17,000", "JOINING to RECONCILING"),
            self.block("18,000", "[t-0, t-1]", "[]"),
            self.state("18,500", "RECONCILING to ACKNOWLEDGING"),
            self.state("18,600", "ACKNOWLEDGING to STABLE"),
            self.state("30,000", "STABLE to RECONCILING"),
            self.block("31,000", "[t-0]", "[t-0, t-1]"),
            self.HEAD.format("31,100", "Revoking previously assigned partitions [t-1]") + "\n",
            self.state("31,500", "RECONCILING to ACKNOWLEDGING"),
        )

        assert found == [(18.5, ("t-0", "t-1")), (31.1, ("t-0",)), (31.5, ("t-0",))]

    def test_revocation_from_unknown_partitions_says_nothing_of_the_rest(self) -> None:
        found = self.read(
            self.state("30,000", "STABLE to RECONCILING"),
            self.block("31,000", "[t-0]", "[t-0, t-1]"),
            self.HEAD.format("31,100", "Revoking previously assigned partitions [t-1]") + "\n",
            self.state("31,500", "RECONCILING to ACKNOWLEDGING"),
        )

        assert found == [(31.5, ("t-0",))]


KAFKA_GO = """\
2026/11/25 14:22:14 Joined group pay as member m1-3751bf9a-8f89-4d96-a7d8-6ad48f039667 in generation 1
2026/11/25 14:22:14 sync group finished for group, pay
2026/11/25 14:22:14 subscribed to topics and partitions: map[{topic:a.b partition:0}:-2 {topic:a.b partition:1}:7]
2026/11/25 14:22:57 stopped heartbeat for group pay
2026/11/25 14:22:58 joined group pay as member m1-3751bf9a-8f89-4d96-a7d8-6ad48f039667 in generation 2
2026/11/25 14:22:58 received empty assignments for group, pay as member m1-3751bf9a-8f89-4d96-a7d8-6ad48f039667 \
for generation 2
2026/11/25 14:22:58 sync group finished for group, pay
"""  # noqa: E501 - as kafka-go prints it


def test_partitions_of_kafka_go_are_read_until_its_generation_ends() -> None:
    interpreter = ClientInterpreter(stream="app.log")
    parser = create_parser(choose_dialects("auto"), interpreter, "UTC")
    found = parser.feed(KAFKA_GO.encode(), 1795700000.0) + parser.flush()

    assert [each.assigned for each in found if each.assigned is not None] == [
        ("a.b-0", "a.b-1"),
        (),
        (),
    ]


class TestLibrdkafka:
    """The classic protocol: the assignment stands in lines below, one for each partition."""

    JOINED = (
        "JoinGroup response: GenerationId {}, Protocol range, LeaderId m1-x, my MemberId "
        "m1-20c01a6a-9cfd-4c19-9388-7c2f08710828, member metadata count 1: (no error)"
    )
    SYNCED = "SyncGroup response: Success (41 bytes of MemberState data)"
    STEADY = 'Group "g" changed join state wait-assign-call -> steady (state up)'
    EAGER = (
        JOINED.format(1),
        SYNCED,
        "List with 2 partition(s):",
        " t [0] offset INVALID",
        " t [9] offset INVALID",
        'Group "g" changed join state wait-sync -> wait-assign-call (state up)',
        'Group "g": setting group assignment to 2 partition(s)',
        "List with 2 partition(s):",
        " t [0] offset INVALID",
        " t [1] offset 7 (leader epoch 3)",
        'Group "g" received op ASSIGN in state up (join-state wait-assign-call)',
        STEADY,
        "Assignment dump (started_cnt=0, wait_stop_cnt=0)",
        "List with 1 partition(s):",
        " t [8] offset INVALID",
        (
            'Group "g" heartbeat error response in state up (join-state steady, 2 partition(s) '
            "assigned): Broker: Group rebalance in progress"
        ),
    )
    REVOKED = ('Group "g": clearing group assignment',)
    COOPERATIVE = (
        *EAGER,
        JOINED.format(2),
        SYNCED,
        (
            'Group "g": incremental assignment: 0 newly added, 1 revoked partitions based on '
            "assignment of 1 partitions"
        ),
        'Group "g" changed join state wait-sync -> wait-unassign-call (state up)',
        'Group "g": 1 partition(s) being removed from group assignment of 2 partition(s)',
        "List with 1 partition(s):",
        " t [1] offset INVALID",
        (
            'Group "g" changed join state wait-unassign-call -> '
            "wait-incr-unassign-to-complete (state up)"
        ),
        "Removing t [0] from assignment (started=true, wait_stop=true, pending=false)",
        'Group "g": 0 partition(s) being added to group assignment of 1 partition(s)',
        "List with 1 partition(s):",
        " t [1] offset INVALID",
        STEADY,
    )

    def read(
        self, *texts: str, head: str = "X|m1#consumer-1| [thrd:main]: ", tail: str = ""
    ) -> list[tuple[str, ...]]:
        parser = create_parser(choose_dialects("auto"), ClientInterpreter(stream="app.log"), "UTC")
        lines = (f"%7|1795827380.{at:03}|{head}{text}{tail}\n" for at, text in enumerate(texts))
        found = [*parser.feed("".join(lines).encode(), 1_900_000_000.0), *parser.flush()]
        return [each.assigned for each in found if each.assigned is not None]

    def test_member_reads_its_assignment_until_it_is_revoked(self) -> None:
        assert self.read(*self.EAGER, *self.REVOKED) == [("t-0", "t-1"), ()]

    def test_logger_may_stand_behind_the_text(self) -> None:
        found = self.read(*self.EAGER, *self.REVOKED, tail=" (librdkafka)")

        assert found == [("t-0", "t-1"), ()]

    def test_part_of_an_assignment_is_revoked(self) -> None:
        assert self.read(*self.COOPERATIVE) == [("t-0", "t-1"), ("t-1",), ("t-1",)]

    def test_list_with_missing_lines_names_nothing(self) -> None:
        """A limit of lines, as Vector's, leaves some out."""
        texts = [each for each in self.EAGER if " t [0] " not in each]

        assert self.read(*texts) == []

    def test_long_list_is_not_kept(self) -> None:
        many = [f" t [{number}] offset INVALID" for number in range(NAMED_MAX + 1)]
        head, last = self.EAGER[:6], self.EAGER[11:]
        size = f"{len(many)} partition(s)"
        begin = (f'Group "g": setting group assignment to {size}', f"List with {size}:")

        assert self.read(*head, *begin, *many, *last) == []
