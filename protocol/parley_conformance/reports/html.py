"""The report as one page that needs nothing but itself; several reports as a matrix."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from parley_conformance.case import PROFILES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jinja2 import Environment

    from parley_conformance.reports.model import Report

_CODE = re.compile(r"`([^`]+)`")

_ORDER = {"FAIL": 0, "ERROR": 1, "NON_STRICT": 2, "PASS": 3, "NOT_APPLICABLE": 4}

_WORDS = {
    "PASS": "pass",
    "NON_STRICT": "not strict",
    "FAIL": "fail",
    "NOT_APPLICABLE": "n/a",
    "ERROR": "error",
}


def as_page(report: Report) -> str:
    """Return a report as a page."""
    cases = sorted(report["cases"], key=lambda case: _ORDER[case["verdict"]])
    groups = [
        (profile, [case for case in cases if case["profile"] == profile])
        for profile in PROFILES
        if profile in report["profiles"]
    ]
    return _rendered("report.html", report=report, groups=groups, words=_WORDS)


def as_matrix(reports: Sequence[Report]) -> str:
    """Return a page of implementations by cases."""
    sides = []
    for side in ("dispatcher", "server"):
        chosen = [report for report in reports if report["side"] == side]
        if not chosen:
            continue
        rows: dict[str, Any] = {}
        for report in chosen:
            for case in report["cases"]:
                rows.setdefault(case["id"], case)
        groups = [
            (profile, [case for case in rows.values() if case["profile"] == profile])
            for profile in PROFILES
        ]
        found = [{case["id"]: case for case in report["cases"]} for report in chosen]
        sides.append((side, chosen, [group for group in groups if group[1]], found))
    return _rendered("matrix.html", sides=sides, words=_WORDS)


def _rendered(name: str, **values: Any) -> str:
    return _environment().get_template(name).render(**values)


def _environment() -> Environment:
    # Heavy, and only whoever wants a page needs it.
    from jinja2 import DictLoader, Environment, StrictUndefined  # noqa: PLC0415
    from markupsafe import Markup, escape  # noqa: PLC0415

    def with_code(text: str) -> Markup:
        """Return a text with what stands between backticks as code."""
        marked = _CODE.sub(r"<code>\1</code>", str(escape(text)))
        return Markup(marked)  # noqa: S704 - escaped just now

    folder = files("parley_conformance.reports").joinpath("pages")
    pages = {
        page.name: page.read_text(encoding="utf-8")
        for page in folder.iterdir()
        if page.name.endswith((".html", ".css"))
    }
    # What programs say of themselves is shown, and must not become part of the page.
    environment = Environment(
        loader=DictLoader(pages),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["code"] = with_code
    return environment
