"""Partitions as text, and back."""

from hypothesis import given
from hypothesis import strategies as st

from metrics.model.partitions import format_partitions, is_partition, parse_partitions

_NAMES = st.builds(
    "{}-{}".format, st.from_regex(r"[A-Za-z0-9._-]{1,20}", fullmatch=True), st.integers(0, 999)
)


@given(st.sets(_NAMES))
def test_text_holds_every_partition(names: set[str]) -> None:
    assert set(parse_partitions(format_partitions(names))) == names
    assert all(map(is_partition, names))


def test_ranges_are_short() -> None:
    names = ["orders-3", "orders-1", "orders-2", "payments-eu-0", "orders-7"]

    assert format_partitions(names) == "orders:1-3,7 payments-eu:0"


def test_other_text_names_no_partition() -> None:
    assert list(parse_partitions("orders: x y:a-b :1")) == ["-1"]
    assert not any(map(is_partition, ["", "orders", "orders-", "orders-x", "-1"]))
