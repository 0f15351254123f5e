"""The recommendations' data: each status has some, and a price follows its text."""

import pytest

from aggregation.explain.recommendations import load_recommendations
from metrics.model.status import RebalanceStatus as Status


@pytest.mark.parametrize("code", [code for code in Status if code])
def test_every_code_has_advice(code: Status) -> None:
    assert load_recommendations().by_status[code]


def test_a_text_is_of_sentences_and_ends_with_its_price() -> None:
    known = load_recommendations()
    texts = [text for each in known.by_status.values() for text in each]

    assert [text for text in [*texts, known.slow_member] if not text.endswith(".")] == []
    assert known.by_status[Status.DROPPED_GROUP][1] == (
        "A longer max.poll.interval.ms gives more time; the price: a hung consumer is noticed "
        "later, and every rebalance may wait that long for it."
    )
