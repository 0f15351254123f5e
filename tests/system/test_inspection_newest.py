"""The newest broker: every API version that it has is spoken, or there is a reason why not."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent.lab.artifacts import NEWEST_VERSION
from agent.lab.broker import Cluster
from tests.system.groups_side_by_side import compare, compare_exit_codes, open_zoo, render
from tools.check_broker_apis import find_gaps, main, read_versions

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(1800)]


def test_every_version_of_the_newest_broker_is_spoken_or_has_a_reason(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster(tmp_path, cache, version=NEWEST_VERSION) as cluster:
        offered = asyncio.run(read_versions(cluster.bootstrap))
        code = main([cluster.bootstrap])

    printed = capsys.readouterr().out
    assert code == 0, printed
    assert "OffsetFetch" in printed
    newer = {key: (low, high + 1) for key, (low, high) in offered.items()}
    unknown = {(gap.name, gap.user) for gap in find_gaps(newer) if gap.versions and not gap.reason}
    assert {("StreamsGroupDescribe", "inspection"), ("JoinGroup", "wire")} <= unknown


@pytest.mark.field
def test_all_that_kafkas_newest_tools_show_is_shown_sooner(cache: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        zoo = open_zoo(tmp_path, stack, cache)
        rows, codes = list(compare(zoo)), list(compare_exit_codes(zoo))

    table = render(rows, codes)
    assert not [row.missing for row in rows if row.missing], table
    assert all(each.ours for each in codes), table
