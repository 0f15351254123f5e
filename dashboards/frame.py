"""The common frame of all dashboards: variables, links, annotations, counts in PromQL."""

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as model

from dashboards.panels import DATASOURCE
from metrics.model.palette import ON_DARK
from metrics.model.status import RebalanceStatus

TAG = "kafka-rebalance"
OVERVIEW, GROUP, STREAMS, AGENT = (
    f"{TAG}-{name}" for name in ("overview", "group", "streams", "agent")
)
"""The dashboards' uids."""

NEEDS_WHOLE_GROUPS = "none seen: needs a hub, or the role standalone"
NEEDS_FINAL_INCIDENTS = "none ended ten minutes ago; needs a hub, or the role standalone"
NEEDS_COORDINATORS = "needs the source groups"
"""Texts of panels without data."""

OF_CLUSTER = 'kafka_cluster=~"$cluster"'


MEMBER = "kafka_cluster, app, group, client_id, host"
"""The labels of a member; several agents may report it."""


def increase_of(selector: str, window: str, each: str = f"{MEMBER}, status") -> str:
    """Return the increase of each series within a window, including its first count.

    A status' series appears with its first count, which ``increase`` cannot see, and a lost member
    has no series until its next sign of life. So of a series that did not exist as the window began
    counts what it has more than in the hour before, or all of it.
    """
    more = f"{selector} - last_over_time({selector}[1h] offset {window}) >= 0"
    new = f"(({more} or {selector}) unless {selector} offset {window})"
    return f"max by ({each}) ({new} or increase({selector}[{window}]))"


def at_most(selector: str) -> str:
    """Return the highest value since the point before, so that no short status is left out."""
    return f"(max_over_time({selector}[$__interval]) or {selector})"


def to(uid: str, **variables: str) -> str:
    """Return a link to a dashboard that keeps the data source, the cluster and the time."""
    values = "".join(f"&var-{name}=${{{value}}}" for name, value in variables.items())
    return (
        f"/d/{uid}?${{datasource:queryparam}}&${{cluster:queryparam}}{values}&${{__url_time_range}}"
    )


def to_page(group: str, **parameters: str) -> str:
    """Return a link to a group's page of an agent; values are Grafana's variables."""
    given = {"group": group} | parameters
    query = "&".join(f"{name}=${{{value}:percentencode}}" for name, value in given.items())
    return f"${{agent}}/group?{query}"


def variable(name: str, label: str, metric: str, *, many: bool = True) -> build.QueryVariable:
    """Return a choice among a label's values; ``many``: all of them, unless some are chosen."""
    made = build.QueryVariable(name).datasource(DATASOURCE)
    made.query({"query": f"label_values({metric}, {label})", "refId": name})
    made.refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
    made.sort(model.VariableSort.ALPHABETICAL_CASE_INSENSITIVE_ASC)
    if many:
        every = model.VariableOption(text="All", value="$__all")
        made.multi(multi=True).include_all(include_all=True).all_value(".*").current(every)
    return made


def new_dashboard(uid: str, title: str, description: str) -> build.Dashboard:
    """Return an empty dashboard."""
    links = build.DashboardLink("Kafka rebalances").type(model.DashboardLinkType.DASHBOARDS)
    return (
        build.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .time("now-3h", "now")
        .refresh("30s")
        .timezone("browser")
        .readonly()
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .link(links.tags([TAG]).include_vars(include_vars=True).keep_time(keep_time=True))
        .with_variable(
            build.DatasourceVariable("datasource").label("Data source").type("prometheus")
        )
    )


def of_cluster() -> build.QueryVariable:
    """Return the variable that the links between the dashboards carry."""
    return variable("cluster", "kafka_cluster", "kafka_group_rebalance_status").label("Cluster")


def agent_pages() -> build.QueryVariable:
    """Return the variable with the address of an agent's pages, from its ``web.external_url``."""
    made = variable("agent", "external_url", "rebalance_agent_external_url_info", many=False)
    return made.label("Agent's pages")


class Episodes(Builder[model.AnnotationQuery]):
    """Annotations: a region wherever an expression has a value."""

    def __init__(self, name: str, expr: str, title: str) -> None:
        self._made = _Titled(
            name=name,
            datasource=DATASOURCE,
            icon_color=ON_DARK[RebalanceStatus.ENDPOINT_UPDATE],
            expr=expr,
        )
        self._made.title = title

    def build(self) -> model.AnnotationQuery:
        """Return it, as the SDK's builders do."""
        return self._made


class _Titled(model.AnnotationQuery):
    """The SDK does not know the fields that are the data source's own."""

    title: str

    def to_json(self) -> dict[str, object]:
        return super().to_json() | {"titleFormat": self.title, "tagKeys": "status"}
