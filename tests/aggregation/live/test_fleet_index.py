"""Names that are given piece by piece are those of all rows at once."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aggregation.live.fleet_index import FleetIndex
from aggregation.live.fleet_member import FleetMember, FleetMemberKey, apply_record
from metrics.model.sample import Sample, SampleKind, Scope, format_time

AT = 1_000.0
BASE = Sample(
    id="",
    kind=SampleKind.SAMPLE,
    ts=format_time(AT),
    cluster="k",
    app="g",
    group="g",
    scope=Scope.CONSUMER,
    source="logs",
    to=0,
)
AGENTS = {"log": ("logs", "pod"), "wire": ("wire", "10.0.0.1"), "broker": ("broker_log", "")}
_step = st.tuples(
    st.sampled_from(sorted(AGENTS)),
    st.sampled_from(["a", "b", "s-StreamThread-1-consumer", "m1", "i"]),
    st.sampled_from(["m1", "m2", "m3", "m4"]),
    st.sampled_from([None, "i"]),
    st.sampled_from(["", "k", "l"]),
    st.booleans(),
)


@given(st.lists(_step, max_size=40))
def test_names_do_not_depend_on_the_order_of_changes(
    steps: list[tuple[str, str, str, str | None, str, bool]],
) -> None:
    rows: dict[FleetMemberKey, FleetMember] = {}
    index = FleetIndex({})
    for agent, client_id, member_id, instance, cluster, is_removed in steps:
        source, host = AGENTS[agent]
        key = FleetMemberKey(agent, cluster, "g", Scope.CONSUMER, client_id, instance or "", host)
        if is_removed:
            if rows.pop(key, None) is not None:
                index.remove(key)
            continue
        row = rows.setdefault(key, FleetMember(app="g", group_type="classic"))
        record = replace(BASE, cluster=cluster, client_id=client_id, source=source, host=host)
        record = replace(record, member_id=member_id, group_instance_id=instance)
        if apply_record(row, record, AT, AT):
            index.add(key, row)
        list(index.members())  # named now, and again after later changes

    whole = FleetIndex({key: row for group in index.groups() for key, row in group.rows.items()})
    assert _by_key(index) == _by_key(whole)


def _by_key(index: FleetIndex) -> dict[FleetMemberKey, object]:
    return {key: name for _, name, rows in index.members() for key, _ in rows}
