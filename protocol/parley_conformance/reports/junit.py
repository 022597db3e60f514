"""The report as JUnit XML, which most CI systems show."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from parley_conformance.reports.model import CaseReport, Report

_ILLEGAL = re.compile(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_junit(report: Report) -> str:
    """Return a report as JUnit XML: a suite for each profile."""
    root = ET.Element("testsuites", name=f"parley conform {report['side']}")
    for profile in report["profiles"]:
        cases = [case for case in report["cases"] if case["profile"] == profile]
        failures = sum(_fails(case) for case in cases)
        suite = ET.SubElement(
            root,
            "testsuite",
            name=f"{report['side']}.{profile}",
            tests=str(len(cases)),
            failures=str(failures),
            errors=str(sum(case["verdict"] == "ERROR" for case in cases)),
            skipped=str(sum(case["verdict"] == "NOT_APPLICABLE" for case in cases)),
        )
        for case in cases:
            _add(suite, case, profile)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _fails(case: CaseReport) -> bool:
    return case["verdict"] == "FAIL" and not case["expected"]


def _add(suite: ET.Element, case: CaseReport, profile: str) -> None:
    element = ET.SubElement(
        suite,
        "testcase",
        classname=f"parley.{profile}",
        name=case["id"],
        time=f"{case['took_ms'] / 1000:.3f}",
    )
    clauses = "\n".join(f"[{clause['id']}] {clause['text']}" for clause in case["clauses"])
    text = _clean(f"{case['title']}\n{clauses}\n{case['reason']}")
    match case["verdict"]:
        case "FAIL" if not case["expected"]:
            ET.SubElement(element, "failure", message=_clean(case["reason"])).text = text
        case "ERROR":
            ET.SubElement(element, "error", message=_clean(case["reason"])).text = text
        case "NOT_APPLICABLE":
            ET.SubElement(element, "skipped", message=_clean(case["reason"]))
        case "NON_STRICT" | "FAIL":
            ET.SubElement(element, "system-out").text = f"{case['verdict']}: {text}"


def _clean(text: str) -> str:
    """Return a text without the characters that XML cannot hold."""
    return _ILLEGAL.sub("\ufffd", text)
