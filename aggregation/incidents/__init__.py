"""Incidents of consumer groups, from the records of any number of agents. Pure, in linear time.

Entry points::

    from aggregation.incidents.answers import answer_of
    from aggregation.incidents.incidents import analyze

    analysis = analyze(records, watermark, now)  # of all groups
    analysis.rebalances  # ExplainedRebalance, by start; `happened` shows them
    analysis.incidents  # Incident, by start; `is_ongoing`, `is_final`, `kind`, `cost`
    answer_of(incident)  # the JSON of incidents.md 5, for explain, API and records

``now`` (Unix seconds) is the present: open rebalances last until then. Records of the kinds
`transition`, `signal`, `lost`, `change` and `agent` count; `episode` and `incident` never do.

The modules, in the order of their work:

- `causes` lists the causes within one rebalance.
- `detection` adds each rebalance to the incident that it follows from. For that, `presence` keeps
  the present and the absent members, `places` finds successors, `openings` makes the first draft of
  an incident, `follow_ups` finds rebalances that belong to the last incident, `static_leaves` those
  at the end of the session of a static member that left, and `restarts` makes rollouts and crash
  loops.
- `waiting` finds the members that a group waits for, and `own_partitions` the assignments of the
  traffic that their members read only later.
- `member_names` names the members, of which several may have one client id.
- `answers` makes the JSON.
- `counter` counts each final incident once and shows the ongoing ones.
- `records` makes the record of a final incident.
"""
