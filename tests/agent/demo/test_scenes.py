from pathlib import Path

import pytest

from agent.demo.scenes import _is_steady, _tail

_LINE = (
    b'%%7|1.0|CGRPJOINSTATE|a#consumer-1| [thrd:main]: Group "g" changed join state %s (state up)\n'
)
_OTHER = b'%7|1.0|HEARTBEAT|a#consumer-1| [thrd:main]: Heartbeat for group "g"\n'


@pytest.mark.parametrize(
    ("states", "steady"),
    [
        ([b"wait-assign-call -> steady"], True),
        ([b"wait-assign-call -> steady", b"steady -> init"], False),
        ([], False),
    ],
)
def test_a_consumer_is_steady_when_its_last_state_is(
    states: list[bytes], *, steady: bool, tmp_path: Path
) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"".join(_LINE % state + _OTHER for state in states))

    assert _is_steady(log) is steady


def test_a_tail_begins_where_it_is_told_to(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"beforeafter")

    assert _tail(log, 6) == b"after"
