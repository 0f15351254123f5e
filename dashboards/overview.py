"""The overview dashboard: groups that rebalance now, their causes and their cost."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from dashboards.frame import (
    GROUP,
    NEEDS_WHOLE_GROUPS,
    OF_CLUSTER,
    OVERVIEW,
    agent_pages,
    at_most,
    increase_of,
    new_dashboard,
    of_cluster,
    to,
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
    lanes,
    lines,
    number,
    ranking,
    rows,
)

OF_APP = f'{OF_CLUSTER},app=~"$app"'
OF_GROUP = f'{OF_CLUSTER},group=~"$group"'
OF_MEMBER = f'{OF_APP},group=~"$group"'
CONSUMER = f"kafka_consumer_rebalance_status{{{OF_MEMBER}}}"
GROUP_STATUS = f"kafka_group_rebalance_status{{{OF_GROUP}}}"
LOST = f'kafka_consumer_rebalance_status_seconds_total{{{OF_MEMBER},status!="None"}}'
UNREAD = f"kafka_group_unread_partition_seconds_total{{{OF_GROUP}}}"
ONGOING = f"kafka_group_incident_ongoing{{{OF_GROUP}}}"
RECENT = f"kafka_group_recent_incidents{{{OF_GROUP}}}"
OUR_ALERTS = 'alertname=~"Kafka(Group|Member|Streams).+|RebalanceAgent.+"'
OWN_CAUSES = 'status!~"None|CoordinatorRequested|RetryOnError|RevocationNeeded"'
"""Without statuses that others cause or that follow a cause."""


def overview() -> Dashboard:
    """Return the dashboard."""
    made = new_dashboard(
        OVERVIEW,
        "Kafka rebalances / Overview",
        "What rebalances now, by application and group, why, who began it, and what it costs.",
    )
    made.with_variable(of_cluster())
    made.with_variable(
        variable("app", "app", f"kafka_app_rebalance_status{{{OF_CLUSTER}}}").label("Application")
    )
    made.with_variable(
        variable("group", "group", f"kafka_group_rebalance_status{{{OF_CLUSTER}}}").label("Group")
    )
    made.with_variable(agent_pages())
    _incidents(made)
    _now(made)
    _causes(made)
    return made


def _incidents(made: Dashboard) -> None:
    made.with_row(Row("Incidents and unread time"))
    unread = increase_of(UNREAD, "$__range", "kafka_cluster, group")
    for title, description, expr, unit, needs in (
        (
            "Incidents that go on",
            "All that follows from one cause is one incident. From a hub, or the role standalone.",
            f"sum(max by (kafka_cluster, group, kind) ({ONGOING}))",
            "short",
            NEEDS_WHOLE_GROUPS,
        ),
        (
            "Partitions unread",
            "Time of partitions without a reader because of an incident, in the range shown.",
            f"sum({unread})",
            "s",
            NEEDS_WHOLE_GROUPS,
        ),
        (
            "Members' time lost",
            "Time that all members together spent in rebalances, in the range shown.",
            f"sum({increase_of(LOST, '$__range')})",
            "s",
            "",
        ),
        (
            "Alerts that fire",
            "Of the rules beside these dashboards; each has a runbook.",
            f'count(ALERTS{{{OUR_ALERTS},alertstate="firing"}}) or vector(0)',
            "short",
            "",
        ),
    ):
        about = About(
            title=title,
            description=description,
            queries=(Query(expr),),
            width=QUARTER,
            height=4,
            unit=unit,
            needs=needs,
        )
        made.with_panel(number(about))
    by_kind = "max by (kafka_cluster, group, kind)"
    about = About(
        title="Incidents of ten minutes",
        description="Incidents that go on or ended within ten minutes, by group and kind. A row"
        " leads to the group's dashboard, and to its page in the agent.",
        queries=(Query(f"{by_kind} ({RECENT}) > 0"), Query(f"{by_kind} ({ONGOING})")),
        url=to(GROUP, group="__data.fields.Group"),
        page=to_page("__data.fields.Group"),
        needs=NEEDS_WHOLE_GROUPS,
    )
    names = {"group": "Group", "kind": "Kind", "kafka_cluster": "Cluster"}
    made.with_panel(rows(about, names | {"Value #A": "Incidents", "Value #B": "Ongoing"}))
    about = About(
        title="Partitions without a reader",
        description="Unread seconds per second: 6 says that six partitions of the group had no"
        " reader. The ten highest.",
        queries=(
            Query(
                f"topk(10, sum by (group) (rate({UNREAD}[$__rate_interval])))",
                "{{group}}",
            ),
        ),
        url=to(GROUP, group="__field.labels.group"),
        page=to_page("__field.labels.group"),
        needs=NEEDS_WHOLE_GROUPS,
    )
    made.with_panel(lines(about))
    about = About(
        title="Groups with an incident",
        description="A lane for each group that has or had an incident in the range shown.",
        queries=(
            Query(
                f"max by (kafka_cluster, group) ({at_most(ONGOING)} > bool 0)",
                "{{group}}",
            ),
        ),
        width=FULL,
        url=to(GROUP, group="__field.labels.group"),
        page=to_page("__field.labels.group"),
        needs=NEEDS_WHOLE_GROUPS,
    )
    made.with_panel(lanes(about, HOLDS))


def _now(made: Dashboard) -> None:
    made.with_row(Row("Now"))
    for title, description, expr, unit in (
        (
            "Groups that rebalance",
            "Groups whose status is not 0, Streams' probing (11) included.",
            f"count(max by (kafka_cluster, group) ({GROUP_STATUS}) > 0) or vector(0)",
            "short",
        ),
        (
            "Members that rebalance",
            "Consumers whose status is not 0: they wait instead of consuming.",
            f"count(max by (kafka_cluster, group, client_id, host) ({CONSUMER}) > 0) or vector(0)",
            "short",
        ),
    ):
        about = About(
            title=title,
            description=description,
            queries=(Query(expr),),
            width=HALF,
            height=4,
            unit=unit,
        )
        made.with_panel(number(about))
    by_app = f"max by (kafka_cluster, app) (kafka_app_rebalance_status{{{OF_APP}}})"
    peak = f"max by (kafka_cluster, app) (kafka_app_rebalance_status_peak{{{OF_APP}}})"
    about = About(
        title="By application",
        description="The status that each application holds, and the highest of two minutes.",
        queries=(Query(by_app), Query(peak)),
    )
    names = {"app": "Application", "kafka_cluster": "Cluster", "Value #A": "Now"}
    made.with_panel(colour_columns(rows(about, names | {"Value #B": "Peak"}), "Now", "Peak"))
    about = About(
        title="By group",
        description="The status that each group holds, and the highest of two minutes."
        " A group leads to its own dashboard.",
        queries=(
            Query(f"max by (kafka_cluster, group) ({GROUP_STATUS})"),
            Query(
                f"max by (kafka_cluster, group) (kafka_group_rebalance_status_peak{{{OF_GROUP}}})"
            ),
        ),
        url=to(GROUP, group="__data.fields.Group"),
        page=to_page("__data.fields.Group"),
    )
    names = {"group": "Group", "kafka_cluster": "Cluster", "Value #A": "Now", "Value #B": "Peak"}
    made.with_panel(colour_columns(rows(about, names), "Now", "Peak"))
    about = About(
        title="Status of the groups",
        description="The max over the members of each group: colour and name say why it rebalances."
        " A lane leads to the group's own dashboard.",
        queries=(Query(f"max by (kafka_cluster, group) ({at_most(GROUP_STATUS)})", "{{group}}"),),
        width=FULL,
        height=10,
        url=to(GROUP, group="__field.labels.group"),
        page=to_page("__field.labels.group"),
    )
    made.with_panel(lanes(about))


def _causes(made: Dashboard) -> None:
    made.with_row(Row("Causes and cost"))
    groups = increase_of(
        f"kafka_group_rebalances_total{{{OF_GROUP}}}",
        "$__interval",
        each="kafka_cluster, group, status",
    )
    members = increase_of(f"kafka_consumer_rebalances_total{{{OF_MEMBER}}}", "$__interval")
    triggers = increase_of(
        f"kafka_consumer_rebalance_transitions_total{{{OF_MEMBER},{OWN_CAUSES}}}", "$__range"
    )
    made.with_panel(
        bars(
            About(
                title="Rebalances of groups by cause",
                description="Whole rebalances, by what triggered them. From agents that see whole"
                " groups: a hub, or the role standalone. Counted half a minute after the end.",
                queries=(Query(f"sum by (status) ({groups})", "{{status}}"),),
                needs=NEEDS_WHOLE_GROUPS,
                colours=CAUSES,
            )
        )
    )
    made.with_panel(
        bars(
            About(
                title="Rebalances of members by highest status",
                description="One rebalance of a group is one for each of its members.",
                queries=(Query(f"sum by (status) ({members})", "{{status}}"),),
                colours=CAUSES,
            )
        )
    )
    about = About(
        title="Members that began most rebalances",
        description="Entries into a status for a cause of the member's own, in the range shown.",
        queries=(
            Query(
                f"topk(10, sum by (group, client_id, host) ({triggers}))",
                "{{group}}: {{client_id}} on {{host}}",
            ),
        ),
        url=to(GROUP, group="__field.labels.group"),
        page=to_page("__field.labels.group"),
    )
    made.with_panel(ranking(about))
    about = About(
        title="Members that rebalance, by application",
        description="Members' seconds in rebalances per second: 3 says that on average three"
        " members of the application were not consuming.",
        queries=(Query(f"sum by (app) (rate({LOST}[$__rate_interval]))", "{{app}}"),),
    )
    made.with_panel(lines(about))
    about = About(
        title="Share of time in rebalances",
        description="Of the members' time, by group; the ten highest.",
        queries=(
            Query(
                f"topk(10, sum by (group) (rate({LOST}[$__rate_interval])) / sum by (group) (rate("
                f"kafka_consumer_rebalance_status_seconds_total{{{OF_MEMBER}}}[$__rate_interval])))",
                "{{group}}",
            ),
        ),
        unit="percentunit",
        width=FULL,
    )
    made.with_panel(lines(about))
