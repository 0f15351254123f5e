"""Lists of entries in exports and in responses of stores: tables, columns, objects around them."""

from collections.abc import Iterator
from typing import Any

import msgspec

from agent.sources.lines.fields.decoding import Json
from agent.sources.lines.fields.entry_keys import dicts

LISTS = (
    "logEvents", "events", "hits", "entries", "results", "data", "Items", "logs", "result",
    "messages", "streams", "tables", "list", "records",
)  # fmt: skip
"""Keys of a store's object around several entries."""
_TYPES = frozenset(("S", "N", "B", "BOOL", "NULL", "M", "L", "SS", "NS", "BS"))
"""Types of DynamoDB's values, each the only key of an object."""
_PAIR, _FORWARDED_DEPTH = 2, 2
_DEEP = 8
"""Objects around the list in the response of an API."""


def remove_types(found: Json) -> Json:
    """Return an item of DynamoDB without its types; any other object as it is."""
    for value in found.values():
        if type(value) is not dict or len(value) != 1 or _TYPES.isdisjoint(value):
            return found
    return {key: next(iter(value.values())) for key, value in found.items()}


def name_pairs(found: Json) -> Json:
    """Return an object with objects in place of its lists of keys and values: Coralogix's."""
    lists = {key: found[key] for key in ("metadata", "labels") if type(found.get(key)) is list}
    named = {
        name: {each["key"]: each.get("value") for each in pairs}
        for name, pairs in lists.items()
        if all(isinstance(each, dict) and isinstance(each.get("key"), str) for each in pairs)
    }
    return {**found, **named} if named else found


def read_forwarded(text: str) -> list[Json]:
    """Return the records of an entry of fluentd's protocol in JSON, with their times and the tag.

    An entry is ``[tag, time, record]``, ``[tag, [[time, record], ...], options]``, or Fluent Bit's
    ``[[time, metadata], record]``. Anything else has no record with a message.
    """
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return []
    return list(_read_pairs(found, {}, _FORWARDED_DEPTH)) if isinstance(found, list) else []


def _read_pairs(found: list[Any], outer: Json, depth: int) -> Iterator[Json]:
    is_pair = len(found) == _PAIR and isinstance(found[0], list) and isinstance(found[1], dict)
    head = found[0] if is_pair else found
    time = next((each for each in head if type(each) in {int, float}), None)
    tag = next((each for each in head if isinstance(each, str)), None)
    own = {"time": time, "tag": tag}
    outer = {**outer, **{key: value for key, value in own.items() if value is not None}}
    for each in found:
        if isinstance(each, dict):
            yield {**outer, **each}
        elif isinstance(each, list) and each is not head and depth:
            yield from _read_pairs(each, outer, depth - 1)


def find_deep_list(found: Json) -> list[Json]:
    """Return the entries of a list within objects that hold nothing else: New Relic's NerdGraph."""
    for _ in range(_DEEP):
        inner = [value for value in found.values() if isinstance(value, dict)]
        if len(inner) != 1:
            break
        found = inner[0]
        items = [item for key in LISTS for item in dicts(found, key)]
        if items:
            return items
    return []


def read_list(found: Json) -> Iterator[Json]:
    """Yield the entries of an export."""
    yield from _read_table(found)
    for key in LISTS:
        inner = found.get(key)
        if isinstance(inner, dict):  # hits.hits of a search, data.result of Loki
            yield from (each for name in LISTS for each in dicts(inner, name))
        else:
            yield from dicts(found, key)
            yield from _read_columns(inner)


def _read_table(found: Json) -> Iterator[Json]:
    """Yield the rows of a table with a separate list of column names.

    Tables of Azure, Elasticsearch's SQL and ES|QL, Splunk's JSON rows and Graylog's search.
    """
    names = [str(column["name"]) for column in dicts(found, "columns") if "name" in column]
    schema = dicts(found, "schema")  # Graylog's, and that of OpenSearch's SQL and PPL
    names += [str(each.get("field") or each.get("name")) for each in schema]
    fields = found.get("fields")
    rows = next((found[key] for key in ("rows", "values", "datarows") if key in found), None)
    if not names and isinstance(fields, list):
        names = list(map(str, fields))
    for row in rows if names and isinstance(rows, list) else ():
        if isinstance(row, list):
            cells = dict(zip(names, row, strict=False))
            yield {"host": cells.get("source"), **cells} if "schema" in found else cells


def _read_columns(rows: Any) -> Iterator[Json]:
    """Yield the rows of CloudWatch Insights: lists of fields and values."""
    for row in rows if isinstance(rows, list) else ():
        cells = row if isinstance(row, list) else ()
        pairs = {
            cell["field"]: cell.get("value")
            for cell in cells
            if isinstance(cell, dict) and isinstance(cell.get("field"), str)
        }
        if pairs:
            yield pairs


def attributes(found: Any) -> Json:
    """Return OTLP's attributes as an object."""
    return _pairs(found, "attributes")


def _pairs(found: Any, key: str) -> Json:
    """Return OTLP's list of keys and values as an object."""
    return {
        each["key"]: value_of(each.get("value"))
        for each in dicts(found if isinstance(found, dict) else {}, key)
        if isinstance(each.get("key"), str) and each.get("value")
    }


def value_of(found: Any) -> Any:
    """Return OTLP's value without its type; a map becomes an object."""
    if not isinstance(found, dict) or not found:
        return None
    kind, value = next(iter(found.items()))
    return _pairs(value, "values") if kind == "kvlistValue" else value
