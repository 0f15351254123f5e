"""The dashboard of the agents themselves: health of sources, backlog, buffers and cost."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from dashboards.frame import AGENT, increase_of, new_dashboard, of_cluster, variable
from dashboards.panels import (
    FULL,
    QUARTER,
    THIRD,
    UP,
    About,
    Query,
    bars,
    lanes,
    lines,
    number,
    rows,
)
from metrics.exporters.catalog import METRICS

OF_AGENT = 'job=~"$job",instance=~"$instance"'
BY_SOURCE = "{{instance}} {{source}}"
BY_SINK = "{{instance}} {{sink}}"
_LEGENDS = {
    "suppressed": "masked",
    "unexplained": "unexplained joins",
    "evicted": "members evicted",
    "groups_evicted": "groups evicted",
}
"""Legends of the tracker's counts; others have the count's name."""


def agent() -> Dashboard:
    """Return the dashboard."""
    made = new_dashboard(
        AGENT,
        "Kafka rebalances / Agent",
        "The agents: health of their sources, how far behind they are, buffers, and cost.",
    )
    made.with_variable(of_cluster())
    made.with_variable(variable("job", "job", "rebalance_agent_build_info").label("Job"))
    made.with_variable(
        variable("instance", "instance", 'rebalance_agent_build_info{job=~"$job"}').label("Agent")
    )
    _health(made)
    _reading(made)
    _samples(made)
    _cost(made)
    return made


def _health(made: Dashboard) -> None:
    made.with_row(Row("Health"))
    for title, description, expr in (
        (
            "Agents",
            "Agents that are scraped.",
            "count(rebalance_agent_build_info{%s}) or vector(0)",
        ),
        (
            "Sources that are down",
            "They cannot read their input. Members that no other source reports get no new status.",
            "count(rebalance_agent_source_up{%s} == 0) or vector(0)",
        ),
        (
            "Samples given up",
            "In the range shown, because a bound was reached: reports have a gap.",
            "sum(increase(rebalance_agent_samples_dropped_total{%s}[$__range]))",
        ),
        (
            "Series left out",
            "More than `limits.series` would let through: the pages are not whole.",
            "sum(rebalance_agent_series_dropped{%s})",
        ),
    ):
        about = About(
            title=title,
            description=description,
            queries=(Query(expr % OF_AGENT),),
            width=QUARTER,
            height=4,
        )
        made.with_panel(number(about))
    about = About(
        title="Sources",
        description="Whether each can read. A source that is down backs off and tries again.",
        queries=(Query(f"rebalance_agent_source_up{{{OF_AGENT}}}", BY_SOURCE),),
        width=FULL,
    )
    made.with_panel(lanes(about, UP))
    errors = increase_of(
        f"rebalance_agent_source_errors_total{{{OF_AGENT}}}", "$__interval", "source, reason"
    )
    reloads = increase_of(
        f"rebalance_agent_config_reloads_total{{{OF_AGENT}}}", "$__interval", "instance, outcome"
    )
    about = About(
        title="Faults of the sources",
        description="What the world did to them: a file that cannot be read, a broker that does not"
        " answer. None is no line.",
        queries=(Query(f"sum by (source, reason) ({errors})", "{{source}}: {{reason}}"),),
        width=THIRD,
    )
    made.with_panel(bars(about))
    about = About(
        title="Reloads",
        description="Of the configuration. A failed one keeps the old configuration.",
        queries=(Query(f"sum by (outcome) ({reloads})", "{{outcome}}"),),
        width=THIRD,
    )
    made.with_panel(bars(about))
    about = About(
        title="Versions",
        description="What runs where.",
        queries=(Query(f"rebalance_agent_build_info{{{OF_AGENT}}}"),),
        width=THIRD,
    )
    names = {"instance": "Agent", "version": "Version", "python_version": "Python"}
    made.with_panel(rows(about, names))


def _reading(made: Dashboard) -> None:
    made.with_row(Row("Reading"))
    for title, description, expr, legend, unit in (
        (
            "Lag",
            "How far each source is behind what it reads.",
            "rebalance_agent_source_lag_seconds{%s}",
            BY_SOURCE,
            "s",
        ),
        (
            "Bytes read",
            "By each source.",
            "rate(rebalance_agent_source_read_bytes_total{%s}[$__rate_interval])",
            BY_SOURCE,
            "Bps",
        ),
        (
            "Members",
            "How many members each source reports.",
            "rebalance_agent_source_members{%s}",
            BY_SOURCE,
            "short",
        ),
        (
            "Signals",
            "Observations that each source made, per second.",
            "rate(rebalance_agent_signals_read_total{%s}[$__rate_interval])",
            BY_SOURCE,
            "cps",
        ),
        (
            "Not understood",
            "Entries per second that looked like a client's own: is a version's dialect missing?",
            "rate(rebalance_agent_signals_unparsed_total{%s}[$__rate_interval])",
            BY_SOURCE,
            "cps",
        ),
    ):
        about = About(
            title=title,
            description=description,
            queries=(Query(expr % OF_AGENT, legend),),
            width=THIRD,
            unit=unit,
        )
        made.with_panel(lines(about))
    about = About(
        title="Signals not applied",
        description="Masked by a higher status; later than what it would undo; joins whose cause no"
        " trace shows; statuses that nothing confirmed; members and groups beyond the limits.",
        queries=tuple(
            Query(
                f"sum(increase({metric.name}{{{OF_AGENT}}}[$__rate_interval]))",
                _LEGENDS.get(metric.count, metric.count),
            )
            for metric in METRICS
            if metric.count
        ),
        width=THIRD,
    )
    made.with_panel(lines(about))


def _samples(made: Dashboard) -> None:
    made.with_row(Row("Samples"))
    for title, description, expr, unit in (
        (
            "Samples written",
            "Per second, by sink: the spool, and the hub.",
            "rate(rebalance_agent_samples_written_total{%s}[$__rate_interval])",
            "cps",
        ),
        (
            "Samples that wait",
            "Not yet safe in the sink. A hub that is away makes this grow.",
            "rebalance_agent_samples_buffered{%s}",
            "short",
        ),
        (
            "Faults of the sinks",
            "Failed writes and commits; each is tried again.",
            "increase(rebalance_agent_sink_errors_total{%s}[$__rate_interval])",
            "short",
        ),
    ):
        about = About(
            title=title,
            description=description,
            queries=(Query(expr % OF_AGENT, BY_SINK),),
            width=THIRD,
            unit=unit,
        )
        made.with_panel(lines(about))


def _cost(made: Dashboard) -> None:
    made.with_row(Row("Cost"))
    agents = f"and on (job, instance) rebalance_agent_build_info{{{OF_AGENT}}}"
    for title, description, metric, unit in (
        ("Scrapes", "How long Prometheus takes for a page.", "scrape_duration_seconds", "s"),
        ("Series", "Of each agent's page.", "scrape_samples_scraped", "short"),
    ):
        about = About(
            title=title,
            description=description,
            queries=(Query(f"{metric}{{{OF_AGENT}}} {agents}", "{{instance}}"),),
            unit=unit,
        )
        made.with_panel(lines(about))
