"""Kinds that the recordings lack: invented histories, each with an answer written by hand."""

import pytest

from tests.aggregation.incidents.invented import NAMES, read, shown


@pytest.mark.parametrize("name", NAMES)
def test_answer_is_as_written_by_hand(name: str) -> None:
    assert shown(name) == read(name)["incidents"]
