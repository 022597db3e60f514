"""What there is to choose from, told by the docstrings of policies, orders and allocators."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parley_client.allocators import ALLOCATORS
from parley_client.errors import UnknownName
from parley_client.orders import ORDERS
from parley_client.policies import POLICIES, PolicyEntry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class Description:
    """One policy, order or allocator.

    Attributes:
        kind: `policy`, `order` or `allocator`.
        summary: The first sentence.
        parameters: For each its default, as one would write it, and what it means.
        cost: Complexity; empty where that is another part's affair.
        source: Where it is defined.
    """

    kind: str
    name: str
    summary: str
    parameters: Mapping[str, tuple[str, str]]
    cost: str
    source: str

    def lines(self) -> Iterator[str]:
        """Yield the description, a line for each of its parts."""
        yield f"{self.name}: {self.summary}"
        for name, (default, meaning) in self.parameters.items():
            yield f"    {name}={default}  {meaning}"
        if self.cost:
            yield f"    Cost: {self.cost}"
        yield f"    Source: {self.source}"


def described(name: str | None = None) -> list[Description]:
    """Return all descriptions, or those of one name.

    Raises:
        UnknownName: There is none of this name.
    """
    everything = [
        *(_policy(entry) for entry in POLICIES.values()),
        *(_part("order", key, order) for key, order in ORDERS.items()),
        *(_part("allocator", key, allocator) for key, allocator in ALLOCATORS.items()),
    ]
    if name is None:
        return everything
    found = [description for description in everything if description.name == name]
    if not found:
        raise UnknownName("policy, order or allocator", name, {one.name for one in everything})
    return found


def _policy(entry: PolicyEntry) -> Description:
    told = _sections(entry.rule)
    meanings = _meanings(told.get("Args", ""))
    parameters = {
        name: (_shown(parameter.default), meanings.get(name, ""))
        for name, parameter in entry.parameters.items()
    }
    summary, source = told["summary"], told.get("Source", "")
    if entry.fixed:
        about = _sections(entry.about)
        summary = f"strict, in the order {entry.name}: {_lower(about['summary'])}"
        source = about.get("Source", "")
    return Description("policy", entry.name, summary, parameters, told.get("Cost", ""), source)


def _part(kind: str, name: str, about: type) -> Description:
    told = _sections(about)
    return Description(
        kind, name, told["summary"], {}, told.get("Cost", ""), told.get("Source", "")
    )


def _sections(about: type) -> dict[str, str]:
    """Return the summary of a docstring, and what follows each `Args:`, `Cost:` and `Source:`."""
    text = inspect.cleandoc(about.__doc__ or about.__name__)
    parts = re.split(r"(?:^|(?<=\s))(Args|Cost|Source):\s", text)
    told = {"summary": re.split(r"(?<=\.)\s", " ".join(parts[0].split()))[0]}
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        told[name] = body if name == "Args" else " ".join(body.split())
    return told


def _meanings(arguments: str) -> dict[str, str]:
    """Return what each argument means, of the lines below `Args:`."""
    found = re.split(r"^ *(\w+): ", arguments, flags=re.MULTILINE)
    return {
        name: " ".join(meaning.split())
        for name, meaning in zip(found[1::2], found[2::2], strict=True)
    }


def _shown(default: object) -> str:
    return "none" if default is None else str(default)


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
