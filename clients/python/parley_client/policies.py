"""Policies by name, with their parameters: a starting rule, or an order that stands for strict."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, TypeAlias, cast

from parley_client.conservative import (
    Conservative,
    ConservativeNone,
    ConservativeSubmitOrder,
    Delayed,
    Prioritised,
)
from parley_client.easy import Easy
from parley_client.errors import ClientError, UnknownName, WrongUsage
from parley_client.orders import ORDERS
from parley_client.rules import Aggressive, Ask, Policy, RejectAll, Rule, Strict
from parley_client.sources import is_path, load_object
from parley_client.timed_run import TimedRun
from parley_client.view import View

__all__ = ["POLICIES", "Ask", "Fifo", "Policy", "PolicyEntry", "parameters_of", "policy_named"]

Parameter: TypeAlias = str | int | float | bool

# Not whatever Python takes for a number: "inf" and "1_0" are words.
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")


class Fifo(Strict):
    """Start jobs in the order of their submission; stop at the first that does not fit."""

    name = "fifo"

    def __init__(self) -> None:
        super().__init__(order="fifo")


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """A policy that has a name.

    Attributes:
        rule: Makes it.
        fixed: Parameters that the name stands for.
        about: Whose docstring says what is special about it.
    """

    name: str
    rule: type[Rule]
    about: type
    fixed: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters that are left to choose."""
        known = inspect.signature(self.rule).parameters
        return {name: known[name] for name in known if name not in self.fixed}


_RULES = (
    *(Strict, Easy, Conservative, ConservativeSubmitOrder, ConservativeNone),
    *(Prioritised, Delayed, Aggressive, TimedRun, RejectAll),
)

POLICIES: Mapping[str, PolicyEntry] = {
    **{rule.name: PolicyEntry(rule.name, rule, rule) for rule in _RULES},
    **{
        name: PolicyEntry(name, Strict, order, MappingProxyType({"order": name}))
        for name, order in ORDERS.items()
    },
}


class FunctionPolicy:
    """A function of the view in the place of a policy.

    Args:
        function: Takes the view.
        parameters: What else it is given.
    """

    def __init__(
        self, function: Callable[..., object], parameters: Mapping[str, Any] | None = None
    ) -> None:
        self._function = function
        self._parameters = dict(parameters or {})
        self.name = getattr(function, "__name__", "function")
        self.ask = cast("Ask", getattr(function, "ask", "always"))

    def decide(self, view: View) -> None:
        """Call the function."""
        self._function(view, **self._parameters)


def policy_named(name: str, parameters: Mapping[str, Parameter] | None = None) -> Policy:
    """Return a new policy by its name, or by where it stands: `./mine.py:MyPolicy`.

    Args:
        name: The name or the path.
        parameters: By their names; text that reads as a number is one.

    Raises:
        WrongUsage: There is no such policy, or it has no such parameter, or not this value.
    """
    if is_path(name):
        return _own(name, dict(parameters or {}))
    entry = POLICIES.get(name)
    if entry is None:
        raise UnknownName("policy", name, POLICIES)
    chosen = _checked(name, entry.parameters, parameters or {})
    policy = entry.rule(**entry.fixed, **chosen)
    policy.name = name
    return policy


def parameters_of(settings: Iterable[str], **named: Parameter | None) -> dict[str, Parameter]:
    """Return parameters as a command line gives them.

    Args:
        settings: Each as `name=value`.
        named: Those with options of their own; None is not given.

    Raises:
        WrongUsage: One is no `name=value`, or is given twice.
    """
    found = {name: value for name, value in named.items() if value is not None}
    for setting in settings:
        name, sign, value = setting.partition("=")
        name = name.strip().replace("-", "_")
        if not sign or not name:
            raise WrongUsage(f"--set {setting}: a parameter is set as NAME=VALUE")
        if name in found:
            raise WrongUsage(f"--set {setting}: {name} is given twice")
        found[name] = value
    return found


def _own(name: str, parameters: Mapping[str, Parameter]) -> Policy:
    made = load_object(name, "policy")
    is_class = isinstance(made, type)
    if not is_class and not callable(made):
        if parameters or not hasattr(made, "decide"):
            raise WrongUsage(f"{name} is no policy: neither a class nor a function of the view")
        return cast("Policy", made)
    known = dict(inspect.signature(made).parameters)
    if not is_class:
        if not known:
            raise WrongUsage(f"{name} is no policy: as a function it takes the view")
        del known[next(iter(known))]
        return FunctionPolicy(made, _checked(name, known, parameters))
    if not hasattr(made, "decide"):
        raise WrongUsage(f"{name} is no policy: it has no method decide(view)")
    chosen = _checked(name, known, parameters)
    try:
        return cast("Policy", made(**chosen))
    except ClientError:
        raise
    except Exception as error:
        raise WrongUsage(f"{name}: {type(error).__name__}: {error}") from error


def _checked(
    policy: str, known: Mapping[str, inspect.Parameter], given: Mapping[str, Parameter]
) -> dict[str, Any]:
    """Return the parameters given, as values.

    Raises:
        WrongUsage: One is unknown, or one is missing.
    """
    kinds = [parameter.kind for parameter in known.values()]
    named = [
        name
        for name, parameter in known.items()
        if parameter.kind in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}
    ]
    for name in given:
        if name not in named and inspect.Parameter.VAR_KEYWORD not in kinds:
            near = get_close_matches(name, named, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            there = f"there are: {', '.join(named)}" if named else "it has none"
            raise WrongUsage(f"policy {policy!r} has no parameter {name!r}{hint}; {there}")
    for name in named:
        if name not in given and known[name].default is inspect.Parameter.empty:
            raise WrongUsage(f"policy {policy!r} needs a value for {name!r}: --set {name}=VALUE")
    return {
        name: value
        if name in known and known[name].annotation in {"str", str}
        else _value_of(value)
        for name, value in given.items()
    }


def _value_of(value: Parameter) -> Parameter:
    """Return the number or truth value that text stands for, or the text."""
    if not isinstance(value, str):
        return value
    if value in {"true", "false"}:
        return value == "true"
    if _NUMBER.fullmatch(value) is None:
        return value
    return float(value) if "." in value else int(value)
