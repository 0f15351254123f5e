"""Counterfactuals: what a setting would have saved, from recorded incidents. Pure.

Entry points::

    from aggregation.counterfactuals.changes import find_changes
    from aggregation.counterfactuals.facts import facts_of_incident, facts_of_row

    find_changes(facts)  # Change: three a group at most, the most useful first

`facts` is what the rules need of an incident, `savings` what one incident would have saved,
`timeouts` the curve over timeouts, `rules` and `shape_rules` the settings, `changes` the ranking,
`lines` the lines to paste. Each rule is written in the docstring of its function.
"""
