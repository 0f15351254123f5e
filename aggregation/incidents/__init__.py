"""Incidents of consumer groups, from the records of any number of agents. Pure, in linear time.

Entry points::

    from aggregation.incidents.answers import answer_of
    from aggregation.incidents.incidents import analyze

    analysis = analyze(records, watermark, now)  # of all groups
    analysis.rebalances  # ExplainedRebalance, by start: what `happened` shows
    analysis.incidents  # Incident, by start; `is_ongoing`, `is_final`, `kind`, `cost`
    answer_of(incident)  # the JSON of incidents.md 5, for explain, API and records

``now`` (Unix seconds) is the present: open rebalances last until then. Records of the kinds
`transition`, `signal`, `lost`, `change` and `agent` count; `episode` and `incident` never do.

`causes` lists what members did within a rebalance, `detection` adds each rebalance to the incident
it follows from: `presence` knows who is there and who is away, `places` successors, `openings` what
a new incident shows first, `follow_ups` what goes on with the last one, `restarts` makes rollouts
and crash loops. `waiting` knows who is waited for, `answers` the JSON.
`counter` counts final incidents once and shows ongoing ones, `records` are what is written of them.
"""
