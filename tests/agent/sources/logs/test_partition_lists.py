import pytest

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
        "a.b_c-d[0 11], u[3]",
        "a.b_c-d(3ieaC+sx/ECA)[0], a.b_c-d(3ieaC+sx/ECA)[11], u(PMqzEaj2TZWTd1WMX5avzQ)[3]",
        "map[a.b_c-d:[0 11] u:[3]]",
        '{"a.b_c-d":[0,11],"u":[3]}',
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
