from metrics.model.signals import SourceKind
from metrics.tracking.source_traits import TRAITS


def test_every_source_kind_has_traits() -> None:
    assert set(TRAITS) == set(SourceKind)


def test_priorities_are_distinct() -> None:
    assert len({traits.priority for traits in TRAITS.values()}) == len(TRAITS)
