"""Panels as of now: a number, a ranking, a table."""

from collections.abc import Mapping
from itertools import chain
from typing import Any

from aggregation.spark.report.plot import readable
from docs.dashboard_pictures.place import (
    CHAR_IN,
    TITLE_IN,
    Found,
    Place,
    format_value,
    label_margin,
    on,
    value_mappings,
)

_BAR = "#3b76af"
_LINE_IN = 0.19
_BAR_IN = 0.2
_NO_DATA = "no data"


def stat(place: Place, panel: Mapping[str, Any], found: Found) -> None:
    """Write one number, a status in its colour."""
    middle = {"ha": "center", "weight": "bold"}
    x, y = place.width_in / 2, (TITLE_IN + place.height_in) / 2
    value = next((series.last for series in chain(*found)), None)
    if value is None:
        place.say(x, y, _NO_DATA, **middle)
    elif value in (values := value_mappings(panel)):
        text, colour = values[value]
        place.fill(0.1, TITLE_IN, place.width_in - 0.2, place.height_in - TITLE_IN - 0.1, colour)
        place.say(x, y, text, size=14, color=on(colour), **middle)
    else:
        unit = panel["fieldConfig"]["defaults"]["unit"]
        place.say(x, y, format_value(value, unit), size=18, **middle)


def ranking(place: Place, panel: Mapping[str, Any], found: Found) -> None:
    """Draw a bar for each series, the longest on top."""
    ranked = sorted(chain(*found), key=lambda series: -series.last)
    left, names = label_margin([series.name for series in ranked], place.width_in / 2)
    longest = max((series.last for series in ranked), default=0.0) or 1.0
    room = place.width_in - left - 0.7
    unit = panel["fieldConfig"]["defaults"]["unit"]
    tall = min(_BAR_IN, (place.height_in - TITLE_IN - 0.05) / max(1, len(ranked)))
    for row, (name, series) in enumerate(zip(names, ranked, strict=True)):
        y = TITLE_IN + (row + 0.5) * tall
        place.say(left - 0.08, y, name, ha="right", size=6.5)
        place.fill(left, y - 0.35 * tall, room * series.last / longest, 0.7 * tall, _BAR)
        text = format_value(series.last, unit)
        place.say(left + room * series.last / longest + 0.06, y, text, size=6.5)
    if not ranked:
        place.say(place.width_in / 2, place.height_in / 2, _NO_DATA, ha="center")


def table(place: Place, panel: Mapping[str, Any], found: Found) -> None:
    """Write the series as rows, with the columns that the panel keeps, by its names."""
    (kept,) = (each["options"] for each in panel["transformations"] if each["id"] == "organize")
    names: Mapping[str, str] = kept["renameByName"]
    columns = sorted(names, key=lambda column: kept["indexByName"][column])
    rows = _rows(panel, found)
    for sort in panel.get("options", {}).get("sortBy", []):
        (by,) = (column for column in columns if names[column] == sort["displayName"])
        rows.sort(key=lambda row: row.get(by, -1.0), reverse=sort["desc"])
    values, colours = value_mappings(panel), _coloured_columns(panel)
    each_in = (place.width_in - 0.2) / len(columns)
    for number, column in enumerate(columns):
        x = 0.1 + number * each_in
        place.say(x, TITLE_IN + 0.1, names[column], color=_BAR, weight="bold", size=6.5)
        for line, row in enumerate(rows[: int((place.height_in - TITLE_IN - 0.2) / _LINE_IN)]):
            y = TITLE_IN + 0.1 + (line + 1) * _LINE_IN
            cell = row.get(column, "")
            text, colour = values.get(cell, (str(cell), ""))
            if colour and names[column] in colours:
                place.fill(x - 0.04, y - 0.085, each_in - 0.04, 0.17, colour)
                place.say(x, y, text, size=6.5, color=on(colour))
            else:
                place.say(x, y, readable(text, int(each_in / CHAR_IN)), size=6.5)


def _rows(panel: Mapping[str, Any], found: Found) -> list[dict[str, Any]]:
    """Return a row for each set of labels that the responses share."""
    merged: dict[tuple[tuple[str, str], ...], dict[str, Any]] = {}
    for target, answer in zip(panel["targets"], found, strict=True):
        column = f"Value #{target['refId']}" if len(found) > 1 else "Value"
        for series in answer:
            row = merged.setdefault(tuple(sorted(series.labels.items())), dict(series.labels))
            row[column] = series.last
    return list(merged.values())


def _coloured_columns(panel: Mapping[str, Any]) -> set[str]:
    return {each["matcher"]["options"] for each in panel["fieldConfig"]["overrides"]}
