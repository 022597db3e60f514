"""The sentences of the specification that cases are tied to, as they are shipped with the kit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CLAUSES_FILE = "clauses.json"


@dataclass(frozen=True, slots=True)
class Clause:
    """A requirement.

    Attributes:
        page: The page of the specification on which it stands.
    """

    id: str
    level: str
    text: str
    page: str


@cache
def clauses() -> Mapping[str, Clause]:
    """Return all requirements by their ids, in the order of the text."""
    text = files("parley_conformance").joinpath(CLAUSES_FILE).read_text(encoding="utf-8")
    return {item["id"]: Clause(**item) for item in json.loads(text)}
