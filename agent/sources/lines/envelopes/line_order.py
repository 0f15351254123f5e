"""Order of a log's lines: whether its newest entry comes first.

Theory of operation. Stores return the newest entry first (gcloud, logcli, Kibana, Datadog). The
first dated lines show that: most steps between them lead into the past. Threads and replicas write
a little out of order, so that a short step shows nothing.
"""

from collections.abc import Iterable
from itertools import islice

from agent.sources.lines.envelopes.envelope import Unwrapper, date_line
from agent.sources.lines.times.timestamps import TimestampReader

HEAD_LINES = 40
"""Dated lines that decide the order, unless they are of one moment."""
_BACKWARD_STEPS = 3
_MOMENT_S = 0.5
"""Threads and replicas write out of order, by less than this."""
_CUT_S = 1.0
"""Of a store's stamp in whole seconds, before a line that has its own."""
_FORWARD_STEPS = 8
"""Steps of one moment, beyond those that lead back, that show a log in order."""
_BURST_STEPS = 20
"""Steps back of a whole log within a moment, beyond those that lead ahead."""
_SHORT_STEPS, _SHORT_S = 1, 1.0
"""Steps back of a whole log, if no step leads forward."""


class LineOrder:
    """Decides whether the first dated lines run backwards."""

    def __init__(self, timezone: str | None) -> None:
        self._reader, self._unwrapper = TimestampReader(timezone), Unwrapper(timezone)
        self._carry = b""
        self._count = 0
        self._first_at = self._last_at = self._before_at = 0.0
        self._is_whole = True
        """Whether each time so far is a whole second."""
        self._back = self._ahead = self._far_ahead = 0
        """Steps back and ahead; far ones lead beyond the moment."""
        self._least = _BACKWARD_STEPS
        self._is_burst = False
        """Whether a whole log within a moment runs backwards."""

    def feed(self, data: bytes, arrival_at: float) -> bool | None:
        """Take the next bytes; return False once the order is not backwards, None before."""
        *lines, self._carry = (self._carry + data).split(b"\n")
        for line in lines:
            at = date_line(line, self._reader, self._unwrapper, arrival_at)
            if at is None:
                continue
            self._take(at)
            if self._is_forward:
                return False
            if self._is_decided(at):
                return self.is_backward
        return None

    def _is_decided(self, at: float) -> bool:
        """Return whether the lines are enough; many of one second have few steps."""
        is_enough = self._count >= HEAD_LINES and abs(at - self._first_at) >= _MOMENT_S
        return is_enough and not (self.is_doubtful and not self.is_backward)

    def _take(self, at: float) -> None:
        step_s = at - self._last_at if self._count else 0.0
        self._before_at = self._last_at
        self._first_at = self._first_at if self._count else at
        self._last_at, self._count = at, self._count + 1
        self._back += step_s < 0
        self._ahead += step_s > 0
        self._is_whole = self._is_whole and at.is_integer()
        self._far_ahead += step_s >= _moment(self._before_at)

    @property
    def _is_forward(self) -> bool:
        """Whether its times are after those at its begin, by more than `_moment`."""
        gain_s = self._last_at - self._first_at
        is_beyond = gain_s >= _moment(self._first_at)
        return is_beyond or (gain_s > 0 and self._ahead - self._back >= _FORWARD_STEPS)

    def end(self, arrival_at: float) -> None:
        """Take the last line: in a short log without a step forward, fewer steps decide."""
        self.feed(b"\n", arrival_at)
        self._is_burst = self._back - 3 * self._ahead >= _BURST_STEPS
        if self._first_at - self._last_at >= _SHORT_S and not self._ahead:
            self._least = _SHORT_STEPS

    @property
    def has_ties(self) -> bool:
        """Whether entries may have the time of the one before: there are whole seconds alone."""
        return self._is_whole and self._count > 1

    @property
    def is_moment(self) -> bool:
        """Whether all of its times are equal."""
        return self._count > 1 and not (self._back or self._ahead)

    @property
    def is_doubtful(self) -> bool:
        """Whether its times so far are before those at its begin: it may run backwards."""
        gain_s = self._first_at - self._last_at
        return self._back > 3 * self._far_ahead and gain_s >= _moment(self._first_at)

    @property
    def may_run_back(self) -> bool:
        """Whether it may run backwards, as far as its few first times show."""
        is_short = 0 < self._count < HEAD_LINES and not self._ahead
        return self.is_doubtful or is_short

    @property
    def is_backward(self) -> bool:
        """Whether most steps lead into the past, and far enough."""
        return self._is_burst or (
            self._back >= max(self._least, 3 * self._far_ahead)
            and self._first_at - self._last_at >= _MOMENT_S
        )


def find_order(lines: Iterable[bytes], timezone: str | None, arrival_at: float) -> LineOrder:
    """Return the order of a document's entries, one a line.

    Entries of one moment at its begin do not decide it.
    """
    order = LineOrder(timezone)
    rest = iter(lines)
    while some := list(islice(rest, HEAD_LINES)):
        if order.feed(b"".join(some), arrival_at) is not None:
            return order
    order.end(arrival_at)
    return order


def _moment(at: float) -> float:
    """Return the largest insignificant step back in seconds: a whole second may be truncated."""
    return _CUT_S if at.is_integer() else _MOMENT_S
