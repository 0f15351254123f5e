"""The dashboard of Kafka Streams applications: instances, threads, probing, follow-ups."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from dashboards.frame import (
    GROUP,
    OF_CLUSTER,
    STREAMS,
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
from metrics.model.status import STREAMS_CODES, RebalanceStatus

OF_APPLICATION = f'{OF_CLUSTER},application_id=~"$application"'
INSTANCE = f"kafka_streams_rebalance_status{{{OF_APPLICATION}}}"
OF_THREAD = f'{OF_CLUSTER},group=~"$application",client_id=~".+-StreamThread-.+"'
THREAD = f"kafka_consumer_rebalance_status{{{OF_THREAD}}}"


EACH = "kafka_cluster, application_id, client_id, host"


def streams() -> Dashboard:
    """Return the dashboard."""
    made = new_dashboard(
        STREAMS,
        "Kafka rebalances / Streams",
        "Kafka Streams applications: their instances and threads, probing, and follow-ups.",
    )
    made.with_variable(of_cluster())
    metric = f"kafka_streams_rebalance_status{{{OF_CLUSTER}}}"
    made.with_variable(variable("application", "application_id", metric).label("Application"))
    made.with_variable(agent_pages())
    _instances(made)
    _follow_ups(made)
    return made


def _instances(made: Dashboard) -> None:
    made.with_row(Row("Instances and threads"))
    for title, description, expr in (
        (
            "Instances",
            "Streams instances that an agent reads.",
            f"count(max by ({EACH}) ({INSTANCE})) or vector(0)",
        ),
        (
            "Threads",
            "Stream threads, by their embedded consumers.",
            f"count(max by (kafka_cluster, group, client_id, host) ({THREAD})) or vector(0)",
        ),
        (
            "Threads that rebalance",
            "Their consumers are not at 0: these threads process nothing new.",
            f"count(max by (kafka_cluster, group, client_id, host) ({THREAD}) > 0) or vector(0)",
        ),
        (
            "Applications that probe",
            "Records are processed, but the tasks are not yet where they belong.",
            f"count(max by (kafka_cluster, application_id) ({INSTANCE} == 11)) or vector(0)",
        ),
    ):
        about = About(
            title=title, description=description, queries=(Query(expr),), width=QUARTER, height=4
        )
        made.with_panel(number(about))
    about = About(
        title="Status of the instances",
        description="10 to 13 are the streams layer's own and override the threads' consumers.",
        queries=(
            Query(
                f"max by (application_id, client_id, host) ({at_most(INSTANCE)})",
                "{{application_id}}: {{client_id}} on {{host}}",
            ),
        ),
        width=FULL,
        url=to(GROUP, group="__field.labels.application_id"),
        page=to_page("__field.labels.application_id"),
    )
    made.with_panel(lanes(about))
    about = About(
        title="Status of the threads",
        description="Of the threads' embedded consumers, 0 to 10.",
        queries=(
            Query(
                f"max by (group, client_id, host) ({at_most(THREAD)})", "{{client_id}} on {{host}}"
            ),
        ),
        width=FULL,
        url=to(GROUP, group="__field.labels.group"),
        page=to_page("__field.labels.group"),
    )
    made.with_panel(lanes(about))
    about = About(
        title="Instances now",
        description="The status that each holds, and the highest of the last two minutes.",
        queries=(
            Query(f"max by ({EACH}) ({INSTANCE})"),
            Query(f"max by ({EACH}) (kafka_streams_rebalance_status_peak{{{OF_APPLICATION}}})"),
        ),
    )
    names = {
        "application_id": "Application",
        "client_id": "Client id",
        "host": "Host",
        "Value #A": "Now",
        "Value #B": "Peak",
    }
    made.with_panel(colour_columns(rows(about, names), "Now", "Peak"))
    transitions = f'kafka_consumer_rebalance_transitions_total{{{OF_THREAD},status!="None"}}'
    about = About(
        title="Entries of the threads into each status",
        description="UserRequested with a follow-up is Streams itself, which enforces a rebalance.",
        queries=(
            Query(f"sum by (status) ({increase_of(transitions, '$__interval')})", "{{status}}"),
        ),
        colours=CAUSES,
    )
    made.with_panel(bars(about))


def _follow_ups(made: Dashboard) -> None:
    made.with_row(Row("Probing and follow-ups"))
    about = About(
        title="Instances by what the streams layer waits for",
        description="10: tasks move. 11: warm-up replicas catch up, and a probing rebalance is"
        " scheduled. 12: versions are agreed on. 13: an endpoint has changed.",
        queries=tuple(
            Query(f"sum({INSTANCE} == bool {int(code)})", code.label) for code in STREAMS_CODES
        ),
        colours={code.label: CAUSES[code.label] for code in STREAMS_CODES},
    )
    made.with_panel(lines(about))
    probing = (
        f"max by (application_id) ({INSTANCE} == bool {int(RebalanceStatus.ASSIGNMENT_PROBING)})"
    )
    about = About(
        title="Share of time in probing",
        description="Of the range shown. Near 100 % for hours: it never settles.",
        queries=(
            Query(
                f"topk(10, avg_over_time(({probing})[$__range:$__interval]))", "{{application_id}}"
            ),
        ),
        unit="percentunit",
    )
    made.with_panel(ranking(about))
