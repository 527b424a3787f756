"""What a notebook shows of a result: the page of `report`, or a table."""

import html
from typing import Any, List, Mapping

from .flags import Path

_MOST = 20  # entries of a list that a table shows


class Page:
    """A page of HTML (docs/commands.md, "report"), which a notebook shows, and `save` writes."""

    def __init__(self, html: str):
        self.html = html

    def save(self, path: Path) -> None:
        with open(path, "x", encoding="utf-8") as file:
            file.write(self.html)

    def __repr__(self) -> str:
        return "<page>"

    def _repr_html_(self) -> str:
        # In a frame, since a notebook's own policy would stop the page's script, and its style would reach the notebook.
        return f'<iframe srcdoc="{html.escape(self.html)}" width="100%" height="700" style="border: 0"></iframe>'


def table(found: Mapping[str, Any]) -> str:
    """Returns HTML with a row for each entry."""
    return f"<table>{''.join(f'<tr><th>{html.escape(name)}</th><td>{_cell(value)}</td></tr>' for name, value in found.items())}</table>"


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):
        return table(value)
    if isinstance(value, list):
        more = f"<p>{len(value) - _MOST} more</p>" if len(value) > _MOST else ""
        return _list(value[:_MOST]) + more
    text = html.escape(str(value))
    return f"<pre>{text}</pre>" if "\n" in text else text


def _list(values: List[Any]) -> str:
    """Returns objects as a table of their plain values, and other values one after the other."""
    if not values or not all(isinstance(value, Mapping) for value in values):
        return ", ".join(map(_cell, values))
    names = list(dict.fromkeys(name for value in values for name, entry in value.items() if not isinstance(entry, (Mapping, list))))
    rows = "".join(f"<tr>{''.join(f'<td>{_cell(value.get(name, str()))}</td>' for name in names)}</tr>" for value in values)
    return f"<table><tr>{''.join(f'<th>{html.escape(name)}</th>' for name in names)}</tr>{rows}</table>"
