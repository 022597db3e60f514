"""A badge: what the report comes to, in a picture of one line."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parley_conformance.reports.model import Report

_WIDTH = 6.6
"""Of a character of the badge's font, in pixels, roughly."""


def badge_text(report: Report) -> tuple[str, str]:
    """Return what the badge says, and its colour."""
    counts = report["counts"]
    judged = counts["PASS"] + counts["NON_STRICT"] + counts["FAIL"]
    if counts["ERROR"]:
        return "not judged", "#9f9f9f"
    if not report["conformant"]:
        return f"{counts['FAIL']} of {judged} fail", "#c62828"
    if counts["NON_STRICT"]:
        return f"conformant, {counts['NON_STRICT']} SHOULD missed", "#8a6d00"
    return f"conformant, {judged} cases", "#2e7d32"


def as_svg(report: Report) -> str:
    """Return the badge as SVG."""
    label = f"Parley {report['protocol']} {report['side']}"
    text, colour = badge_text(report)
    left, right = (round(len(part) * _WIDTH) + 14 for part in (label, text))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'aria-label="{escape(label)}: {escape(text)}">'
        f"<title>{escape(label)}: {escape(text)}</title>"
        f'<rect width="{left}" height="20" fill="#444"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{colour}"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" '
        'text-anchor="middle">'
        f'<text x="{left / 2:g}" y="14">{escape(label)}</text>'
        f'<text x="{left + right / 2:g}" y="14">{escape(text)}</text></g></svg>\n'
    )


def as_endpoint(report: Report) -> str:
    """Return the badge as the JSON that services of badges take."""
    text, colour = badge_text(report)
    label = f"Parley {report['protocol']} {report['side']}"
    return (
        json.dumps(
            {"schemaVersion": 1, "label": label, "message": text, "color": colour.lstrip("#")}
        )
        + "\n"
    )
