"""What an agent knows again of its spool."""

from pathlib import Path

import msgspec
import pytest

from agent.hub.recent_records import read_spool
from metrics.model.sample import encode
from tests.aggregation.rebalances.test_rebalances import START, records

NO_CODE = encode(msgspec.structs.replace(records(*START)[0], to=14)).strip()


@pytest.mark.parametrize(
    "malformed", [b"\0" * 9, b'{"id":"\xff"}', b'{"x":' + b"[" * 100_000, NO_CODE]
)
def test_what_is_no_record_is_left_out(tmp_path: Path, malformed: bytes) -> None:
    known = records(*START)
    lines = [encode(record).strip() for record in known]
    (tmp_path / "1.jsonl").write_bytes(b"\n".join([malformed, *lines, b""]))

    assert sorted(each.id for each in read_spool(tmp_path)) == sorted(each.id for each in known)
