"""Recommendations by cause: settings by their documented names, each with its price.

The texts are data in ``recommendations.toml``, read at the first explanation.
"""

from functools import cache
from importlib.resources import files
from typing import NamedTuple

import msgspec

from metrics.model.status import BY_LABEL, RebalanceStatus


class Recommendations(NamedTuple):
    """Texts of each cause, the most useful first; a text for late members, one for no cause."""

    by_status: dict[RebalanceStatus, tuple[str, ...]]
    slow_member: str
    unseen: str


class _Advice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry; ``price`` is the drawback of the setting that the text names."""

    status: str
    text: str
    price: str | None = None

    def sentence(self) -> str:
        if self.price is None:
            return self.text
        return f"{self.text.removesuffix('.')}; the price: {self.price}"


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    slow_member: str
    advice: tuple[_Advice, ...]


@cache
def load_recommendations() -> Recommendations:
    """Read the texts, once."""
    data = (files(__package__) / "recommendations.toml").read_bytes()
    document = msgspec.toml.decode(data, type=_Document)
    texts = dict[RebalanceStatus, tuple[str, ...]]()
    for entry in document.advice:
        status = BY_LABEL[entry.status]
        texts[status] = (*texts.get(status, ()), entry.sentence())
    return Recommendations(
        texts, document.slow_member, texts[RebalanceStatus.COORDINATOR_REQUESTED][0]
    )
