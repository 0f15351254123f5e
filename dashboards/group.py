"""The dashboard of one group: its members side by side, durations and membership."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from dashboards.frame import (
    GROUP,
    NEEDS_COORDINATORS,
    NEEDS_FINAL_INCIDENTS,
    NEEDS_WHOLE_GROUPS,
    OF_CLUSTER,
    Episodes,
    agent_pages,
    at_most,
    increase_of,
    new_dashboard,
    of_cluster,
    to_page,
    variable,
)
from dashboards.panels import (
    CAUSES,
    FULL,
    HALF,
    HOLDS,
    QUARTER,
    About,
    Query,
    bars,
    colour_columns,
    durations,
    lanes,
    lines,
    number,
    ranking,
    rows,
    status_now,
)

OF_GROUP = f'{OF_CLUSTER},group="$group"'
OF_MEMBER = f'{OF_GROUP},client_id=~"$client_id"'
CONSUMER = f"kafka_consumer_rebalance_status{{{OF_MEMBER}}}"
GROUP_STATUS = f"kafka_group_rebalance_status{{{OF_GROUP}}}"
LOST = f'kafka_consumer_rebalance_status_seconds_total{{{OF_MEMBER},status!="None"}}'
UNREAD = f"kafka_group_unread_partition_seconds_total{{{OF_GROUP}}}"
ONGOING = f"kafka_group_incident_ongoing{{{OF_GROUP}}}"
FAILED = f"kafka_group_join_failures_total{{{OF_GROUP}}}"
MEMBER_LEGEND = "{{client_id}} on {{host}}"
SEEN_BY = " From agents that see whole groups: a hub, or the role standalone."
INSPECTED = " From a standalone agent with the source `groups`, which asks the coordinators."


def group() -> Dashboard:
    """Return the dashboard."""
    made = new_dashboard(
        GROUP,
        "Kafka rebalances / Group",
        "One group: a lane for each member, how long its rebalances take, stragglers, membership.",
    )
    made.with_variable(of_cluster())
    made.with_variable(
        variable(
            "group", "group", f"kafka_group_rebalance_status{{{OF_CLUSTER}}}", many=False
        ).label("Group")
    )
    made.with_variable(
        variable("client_id", "client_id", f"kafka_consumer_rebalance_status{{{OF_GROUP}}}").label(
            "Client id"
        )
    )
    made.annotation(
        Episodes("In rebalance", f"max by (group) ({GROUP_STATUS}) > 0", "{{group}} rebalances")
    )
    over = f"kafka_group_rebalances_total{{{OF_GROUP}}}"
    over = increase_of(over, "$__interval", each="group, status")
    made.annotation(Episodes("Over", f"{over} > 0", "a rebalance is over: {{status}}"))
    made.with_variable(agent_pages())
    _incidents(made)
    _status(made)
    _time(made)
    _membership(made)
    return made


def _incidents(made: Dashboard) -> None:
    made.with_row(Row("Incidents and unread time"))
    unread = increase_of(UNREAD, "$__range", "kafka_cluster, group")
    failed = increase_of(FAILED, "$__range", "group, error")
    for title, description, query, unit, needs in (
        (
            "Incidents that go on",
            "Incidents of the group that are not over, by their kind so far." + SEEN_BY,
            Query(f"sum(max by (kind) ({ONGOING}))"),
            "short",
            NEEDS_WHOLE_GROUPS,
        ),
        (
            "Partitions unread",
            "Time that partitions had no reader because of an incident, in the range shown, summed"
            " over partitions." + SEEN_BY,
            Query(f"sum({unread})"),
            "s",
            NEEDS_WHOLE_GROUPS,
        ),
        (
            "Members' time lost",
            "Time that all members together spent in rebalances, in the range shown.",
            Query(f"sum({increase_of(LOST, '$__range')})"),
            "s",
            "",
        ),
        (
            "Joins that failed",
            "How many joins failed in the range shown, by Kafka's name of the error." + SEEN_BY,
            Query(f"sum by (error) ({failed})", "{{error}}"),
            "short",
            NEEDS_WHOLE_GROUPS,
        ),
    ):
        about = About(
            title=title,
            description=description,
            queries=(query,),
            width=QUARTER,
            height=4,
            unit=unit,
            page=to_page("group"),
            needs=needs,
        )
        made.with_panel(number(about))
    about = About(
        title="Incidents now",
        description="A lane for each kind of incident while one of it goes on. The agent's page has"
        " who, why, and what to change." + SEEN_BY,
        queries=(Query(f"max by (kind) ({at_most(ONGOING)} > bool 0)", "{{kind}}"),),
        page=to_page("group"),
        needs=NEEDS_WHOLE_GROUPS,
    )
    made.with_panel(lanes(about, HOLDS))
    counted = increase_of(
        f"kafka_group_incidents_total{{{OF_GROUP}}}", "$__interval", "group, kind"
    )
    about = About(
        title="Incidents by kind",
        description="One incident is all that follows from one cause: a rolling restart is one."
        " Counted ten minutes after its end." + SEEN_BY,
        queries=(Query(f"sum by (kind) ({counted})", "{{kind}}"),),
        page=to_page("group"),
        needs=NEEDS_FINAL_INCIDENTS,
    )
    made.with_panel(bars(about))


def _status(made: Dashboard) -> None:
    made.with_row(Row("Status"))
    about = About(
        title="Group",
        description="The status that the group holds: the max over its members.",
        queries=(Query(f"max({GROUP_STATUS})"),),
        width=QUARTER,
        height=4,
    )
    made.with_panel(status_now(about))
    about = About(
        title="Highest of two minutes",
        description="What a look at the status itself may miss.",
        queries=(Query(f"max(kafka_group_rebalance_status_peak{{{OF_GROUP}}})"),),
        width=QUARTER,
        height=4,
    )
    made.with_panel(status_now(about))
    about = About(
        title="Members",
        description="Members whose own traces an agent reads.",
        queries=(Query(f"count(max by (client_id, host) ({CONSUMER})) or vector(0)"),),
        width=QUARTER,
        height=4,
    )
    made.with_panel(number(about))
    about = About(
        title="Since the last rebalance",
        description="Time since the end of the group's last rebalance." + SEEN_BY,
        queries=(
            Query(
                f"time() - max(kafka_group_last_rebalance_timestamp_seconds{{{OF_GROUP}}})",
            ),
        ),
        width=QUARTER,
        height=4,
        unit="s",
        needs=NEEDS_WHOLE_GROUPS,
    )
    made.with_panel(number(about))
    about = About(
        title="Status of the members",
        description="A lane for each member. The first that changes began it; the last lane to end"
        " held it up.",
        queries=(Query(f"max by (client_id, host) ({at_most(CONSUMER)})", MEMBER_LEGEND),),
        page=to_page("group", member="__field.labels.client_id"),
        width=FULL,
        height=12,
    )
    made.with_panel(lanes(about))


def _time(made: Dashboard) -> None:
    made.with_row(Row("How long"))
    buckets = f"kafka_consumer_rebalance_duration_seconds_bucket{{{OF_GROUP}}}"
    members = increase_of(buckets, "$__interval", "kafka_cluster, app, group, le")
    about = About(
        title="Length of the members' rebalances",
        description="How many members' rebalances took how long: the darker, the more. An exemplar,"
        " from a hub or the role standalone, has the id of the group's episode.",
        queries=(Query(f"sum by (le) ({members})", "{{le}}", exemplars=True),),
    )
    made.with_panel(durations(about))
    buckets = f"kafka_group_rebalance_duration_seconds_bucket{{{OF_GROUP}}}"
    whole = increase_of(buckets, "$__range", "kafka_cluster, group, status, le")
    about = About(
        title="Length of the group's rebalances",
        description="From the first member's start to the last one's end: half of them, and 95 of"
        " 100, took no longer. An exemplar has the episode's id." + SEEN_BY,
        queries=tuple(
            Query(
                f"histogram_quantile({part}, sum by (le) ({whole}))",
                f"p{part * 100:.0f}",
                exemplars=True,
            )
            for part in (0.5, 0.95)
        ),
        unit="s",
        needs=NEEDS_WHOLE_GROUPS,
    )
    made.with_panel(lines(about))
    seconds = f"sum by (client_id, host) ({increase_of(LOST, '$__range')})"
    about = About(
        title="Slowest members",
        description="Members by their time in rebalances, in the range shown. With the eager"
        " protocol all wait for the slowest, so all are much alike.",
        queries=(Query(f"topk(10, {seconds})", MEMBER_LEGEND),),
        unit="s",
    )
    made.with_panel(ranking(about))
    settled = f"min by (kafka_cluster, group) ({CONSUMER}) == bool 0"
    about = About(
        title="Stragglers",
        description="Members that rebalance while another one has settled: a long one"
        " holds on to its partitions, or waits for some.",
        queries=(
            Query(
                f"max by (kafka_cluster, group, client_id, host) ({CONSUMER} > bool 0)"
                f" * on (kafka_cluster, group) group_left () ({settled})",
                MEMBER_LEGEND,
            ),
        ),
    )
    made.with_panel(lanes(about, HOLDS))
    causes = increase_of(
        f"kafka_group_rebalances_total{{{OF_GROUP}}}", "$__interval", "group, status"
    )
    about = About(
        title="Rebalances by cause",
        description="Whole rebalances, by what triggered them." + SEEN_BY,
        queries=(Query(f"sum by (status) ({causes})", "{{status}}"),),
        colours=CAUSES,
        needs=NEEDS_WHOLE_GROUPS,
    )
    made.with_panel(bars(about))
    entries = f'kafka_consumer_rebalance_transitions_total{{{OF_MEMBER},status!="None"}}'
    about = About(
        title="Entries into each status",
        description="Over all members. One rebalance may pass several statuses.",
        queries=(Query(f"sum by (status) ({increase_of(entries, '$__interval')})", "{{status}}"),),
        colours=CAUSES,
    )
    made.with_panel(bars(about))


def _membership(made: Dashboard) -> None:
    made.with_row(Row("Membership"))
    about = About(
        title="Members of the group",
        description="Each member's id, protocol, assignor and software, as far as they are known,"
        " its status, and the highest of two minutes.",
        queries=(
            Query(_member_rows(CONSUMER)),
            Query(_member_rows(f"kafka_consumer_rebalance_status_peak{{{OF_MEMBER}}}")),
        ),
        width=FULL,
    )
    names = {
        "client_id": "Client id",
        "Value #A": "Now",
        "Value #B": "Peak",
        "member_id": "Member id",
        "group_instance_id": "Instance id",
        "protocol": "Protocol",
        "assignor": "Assignor",
        "software": "Software",
    }
    made.with_panel(colour_columns(rows(about, names), "Now", "Peak"))
    about = About(
        title="Members and generation",
        description="As the coordinator counts them." + INSPECTED,
        queries=(
            Query(f"max(kafka_group_members{{{OF_GROUP}}})", "members"),
            Query(f"max(kafka_group_generation{{{OF_GROUP}}})", "generation"),
            Query(
                f"sum(increase(kafka_group_membership_changes_total{{{OF_GROUP}}}[$__rate_interval]))",
                "changes",
            ),
        ),
        width=HALF,
        needs=NEEDS_COORDINATORS,
    )
    made.with_panel(lines(about))
    about = About(
        title="State",
        description="The coordinator's state: a lane for each state, marked while it holds."
        + INSPECTED,
        queries=(Query(f"max by (state) (kafka_group_state{{{OF_GROUP}}})", "{{state}}"),),
        width=HALF,
        needs=NEEDS_COORDINATORS,
    )
    made.with_panel(lanes(about, HOLDS))


def _member_rows(status: str) -> str:
    """Return the members' labels, with their status as the value."""
    info = "client_id, member_id, group_instance_id, protocol, assignor, software"
    by = "kafka_cluster, group, client_id, job, instance"
    members = f"kafka_consumer_member_info{{{OF_GROUP}}}"
    return f"max by ({info}) ({members} * on ({by}) group_left () max by ({by}) ({status}))"
