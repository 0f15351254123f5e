"""Faults in the data, by agent."""

from aggregation.spark.report.section import Row, Section, no_chart
from aggregation.spark.rollups.preaggregations import PreAggregation

QUARANTINED, LATE, FUTURE, UNSEEN = "(quarantine)", "(late)", "(future)", "(cause not seen)"
"""Names in the place of an agent: quarantined lines, late ones, those of the future, rebalances."""

QUERY = """
WITH days AS (
  SELECT host AS agent, day, array_min(hours) AS first, array_max(hours) AS last,
         size(hours) AS present, is_sampled, is_empty
  FROM (
    SELECT host, day, max(bucket) IS NOT NULL AS is_sampled,
           getbit(coalesce(max(bucket), 0), 24) = 1 AS is_empty,
           filter(sequence(0, 23), h -> getbit(coalesce(max(bucket), 16777215), h) = 1) AS hours
    FROM rollups
    WHERE what = 'quality' AND kind = 'records' AND $period
    GROUP BY host, day
  )
), gaps AS (
  SELECT agent, is_sampled, present, last - first + 1 - present AS within,
         CASE WHEN lag(is_empty) OVER in_order THEN 0
              ELSE 24 * datediff(day, lag(day) OVER in_order) + first
                   - lag(last) OVER in_order - 1 END AS before
  FROM days
  WINDOW in_order AS (PARTITION BY agent ORDER BY day)
), outages AS (
  SELECT agent,
         sum(CASE WHEN within >= 2 THEN within ELSE 0 END)
           + sum(CASE WHEN before >= 2 THEN before ELSE 0 END) AS hours
  FROM gaps
  GROUP BY agent
  HAVING bool_or(is_sampled) AND sum(within) + sum(coalesce(before % 24, 0)) <= sum(present)
), agents AS (
  SELECT host AS agent,
         sum(CASE WHEN kind = 'records' THEN times ELSE 0 END) AS records,
         sum(CASE WHEN kind = 'gap' THEN times ELSE 0 END) AS gaps,
         sum(CASE WHEN kind = 'headless' THEN times ELSE 0 END) AS starts_not_seen,
         sum(CASE WHEN kind = 'open' THEN times ELSE 0 END) AS ends_not_seen,
         sum(CASE WHEN kind = 'lost' THEN times ELSE 0 END) AS dropped_as_stale,
         coalesce(max(outages.hours), 0) AS outage_h,
         CAST(0 AS BIGINT) AS quarantined_lines, CAST(0 AS BIGINT) AS causes_not_seen,
         sum(CASE WHEN what = 'skew' THEN seconds END)
           / sum(CASE WHEN what = 'skew' THEN times END) AS clock_offset_s
  FROM rollups LEFT JOIN outages ON host = agent
  WHERE what IN ('quality', 'skew') AND $period
  GROUP BY host
), faults AS (
  SELECT reason, lines FROM quarantine WHERE $quarantined UNION ALL SELECT '', 0
), lines AS (
  SELECT CASE WHEN reason LIKE 'late: %' THEN '(late)'
              WHEN reason LIKE 'future: %' THEN '(future)'
              ELSE '(quarantine)' END AS agent,
         0, 0, 0, 0, 0, 0, sum(lines), 0, NULL
  FROM faults
  GROUP BY 1
), unseen AS (
  SELECT '(cause not seen)', 0, 0, 0, 0, 0, 0, 0, sum(times), NULL
  FROM rollups
  WHERE what = 'rebalance' AND code IS NULL AND $period
  HAVING sum(times) > 0
)
SELECT * FROM agents UNION ALL SELECT * FROM lines UNION ALL SELECT * FROM unseen
ORDER BY gaps + starts_not_seen + outage_h + quarantined_lines + causes_not_seen DESC, agent
"""

_FAULTS = (
    "gaps",
    "starts_not_seen",
    "ends_not_seen",
    "dropped_as_stale",
    "outage_h",
    "causes_not_seen",
)
_OFFSET_S = 1.0
"""A clock's offset from here on counts."""


def has_fault(row: Row) -> bool:
    """Check whether an agent's records lack something, or its clock is wrong."""
    offset = row["clock_offset_s"]
    faults = any(row[name] for name in (*_FAULTS, "quarantined_lines"))
    return faults or (offset is not None and abs(offset) >= _OFFSET_S)


SECTION = Section(
    name="quality",
    title="Data quality",
    note="By agent. A gap is an episode with a record missing within, or one that ends before it "
    "begins or more than a day after (a week where a member was dropped, retries or probes); it "
    "has no length, so missing records make durations fewer, never longer. Ends not seen are "
    "also what is still going on. Quarantined lines count on the day of their file, or all "
    "where no first or last day was asked for. Late lines are records of days with removed "
    "records: the sums of such a day stay as they are. Outage is the time in which an agent itself "
    "was silent: two or more hours without a record between two of its own, though it had members. "
    "What happened then was not seen. Hours behind the leave of its last member do not count, nor "
    "do those behind the expiry of all that it had, which other members show, or those that "
    "another agent of the same members saw. A group that is killed together with all of its agents "
    "looks like their outage. An agent that does not come back has no outage, as its pod may be "
    "gone. "
    "Causes not seen are of rebalances whose cause no record shows: of a "
    "member without an agent, or whose agent was out or replaced, or of a long rebalance, which "
    "may itself have waited for the member that is gone. Future lines are records from more than a "
    "day after their "
    "arrival. The clock's offset is how much earlier or later an agent sees rebalances end that "
    "others see; once three of a group show a second or more, its times are corrected, and so is "
    "a step of a log's clock by three seconds or more that two generations show. What "
    "still goes on lasts to the agents' last record. A dropped member costs its group a day's "
    "time at most.",
    empty="No fault was found in the records of any agent.",
    query=QUERY,
    preaggregation=PreAggregation.DAYS,
    chart=no_chart,
    speaks=has_fault,
)
