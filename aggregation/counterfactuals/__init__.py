"""Counterfactuals: what a setting would have saved, from recorded incidents. Pure.

Entry points::

    from aggregation.counterfactuals.changes import find_changes
    from aggregation.counterfactuals.facts import facts_of_incident, facts_of_row

    find_changes(facts)  # Change: three a group at most, the most useful first

`facts` is what rules need of an incident, `savings` what one incident would have saved,
`timeouts` the curve of a timeout, `rules`, `shape_rules`, `membership_rules` the settings,
`changes` the ranking, `lines` the lines to paste, `sentences` a change in one sentence. Each rule
is written in the docstring of its function. Backtests with real clients: docs/backtests.md.
"""
