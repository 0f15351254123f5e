"""Partitions as text, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.model.partitions import (
    PARTITIONS_MAX,
    TEXT_MAX_CHARS,
    clip_partitions,
    count_partitions,
    format_partitions,
    is_partition,
    parse_partitions,
)

_NAMES = st.builds(
    "{}-{}".format, st.from_regex(r"[A-Za-z0-9._-]{1,20}", fullmatch=True), st.integers(0, 999)
)


@given(st.sets(_NAMES))
def test_text_holds_every_partition(names: set[str]) -> None:
    text = format_partitions(names)
    assert set(parse_partitions(text)) == names
    assert count_partitions(text) == len(names)
    assert all(map(is_partition, names))


def test_ranges_are_short() -> None:
    names = ["orders-3", "orders-1", "orders-2", "payments-eu-0", "orders-7"]

    assert format_partitions(names) == "orders:1-3,7 payments-eu:0"


def test_other_text_names_no_partition() -> None:
    assert list(parse_partitions("orders: x y:a-b :1")) == ["-1"]
    assert not any(map(is_partition, ["", "orders", "orders-", "orders-x", "-1", "t" * 250 + "-1"]))


@pytest.mark.parametrize("number", ["\N{SUPERSCRIPT TWO}", "9" * 11, "9" * 5000, "0-" + "9" * 5000])
def test_numbers_that_kafka_has_not_name_no_partition(number: str) -> None:
    assert list(parse_partitions(f"t:{number} orders:7")) == ["orders-7"]
    assert not is_partition(f"t-{number}")


def test_a_text_of_a_billion_partitions_has_an_end() -> None:
    text = "t:0-9999999999,0-9999999999"

    found = list(parse_partitions(text))

    assert count_partitions(text) == PARTITIONS_MAX

    assert (found[0], found[-1], len(found)) == ("t-0", f"t-{PARTITIONS_MAX - 1}", PARTITIONS_MAX)


def test_a_long_text_ends_behind_a_topic() -> None:
    text = format_partitions(f"topic{number}-{number % 3}" for number in range(50_000))

    short = clip_partitions(text)

    assert len(short) <= TEXT_MAX_CHARS < len(text)
    assert text.startswith(f"{short} ")
    assert clip_partitions(short) is short
