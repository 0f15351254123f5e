"""The reference names each attribute of a member that a record of kind ``change`` has."""

import ast
from pathlib import Path

from metrics.model.change_fields import MEMBER_FIELDS

_ATTRIBUTES = Path(__file__).parents[3] / "metrics/tracking/attributes.py"


def test_each_recorded_field_of_a_member_is_named() -> None:
    tree = ast.parse(_ATTRIBUTES.read_text("utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = {
        call.args[0].value
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "record_change"
        and isinstance(call.args[0], ast.Constant)
    }
    assert names == MEMBER_FIELDS.keys() - {"version", "image"}  # those come from `workload`
