"""What a case is: a claim about one side, the dialogue that puts it to the test, and a judge."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from parley_conformance.verdicts import PASSED, Finding, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from parley_conformance.dialogue import Record

PROFILES = (
    *("core", "alloc", "timer", "kill", "nodes", "delta", "resume", "json", "limits", "secure"),
)
"""Sets of cases, by what a program has to do with."""

StageT = TypeVar("StageT")


@dataclass(frozen=True, slots=True)
class Scene(Generic[StageT]):
    """A dialogue that the kit begins; several cases may be judged by it.

    Attributes:
        name: In lower case.
        play: Holds the dialogue.
        about: What happens in it, in a sentence.
        setting: Which scenario a server is to offer; of a dispatcher's scenes empty.
        alone: It needs a server of its own.
        weight: Seconds that it may take; the heaviest are begun first.
        environment: What to set for a dispatcher.
        timed: It hangs on the clock on the wall: what it finds amiss is looked at again, alone.
    """

    name: str
    play: Callable[[StageT], None]
    about: str
    setting: str = ""
    alone: bool = False
    weight: float = 1.0
    environment: Mapping[str, str] | None = None
    timed: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """A claim about a program.

    Attributes:
        id: Stable; never a position.
        side: `dispatcher` or `server`.
        title: What is claimed, in a sentence.
        right: What a right answer looks like.
        requirements: Ids of the specification's sentences.
        profile: One of `PROFILES`.
        must: Whether a breach is a FAIL, or NON_STRICT only.
        scenes: The dialogues to judge by.
        judge: Finds out, from the records of the scenes.
    """

    id: str
    side: str
    title: str
    right: str
    requirements: tuple[str, ...]
    profile: str
    must: bool
    scenes: tuple[Scene[Any], ...]
    judge: Callable[..., Finding | None]

    @property
    def level(self) -> str:
        """`MUST` or `SHOULD`."""
        return "MUST" if self.must else "SHOULD"

    def verdict(self, records: Sequence[Record]) -> Finding:
        """Judge.

        A fault of the kit's own, in the dialogue or in the judge, is an ERROR.
        """
        faults = [record.fault for record in records if record.fault]
        if faults:
            return Finding(Verdict.ERROR, f"a fault of the kit: {faults[0]}")
        try:
            found = self.judge(*records) or PASSED
        except Exception as error:  # noqa: BLE001 - the program must not be blamed for it
            return Finding(Verdict.ERROR, f"a fault of the kit: {type(error).__name__}: {error}")
        if found.verdict is Verdict.FAIL and not self.must:
            return Finding(Verdict.NON_STRICT, found.reason, found.line, found.scene)
        return found


def select(
    cases: Iterable[Case], *, globs: Sequence[str] = (), profiles: Sequence[str] = ()
) -> list[Case]:
    """Return the cases whose id fits one of the globs and whose profile is among these."""
    return [
        case
        for case in cases
        if (not globs or any(fnmatchcase(case.id, glob.upper()) for glob in globs))
        and (not profiles or case.profile in profiles)
    ]


def case(
    identity: str,
    title: str,
    *requirements: str,
    side: str,
    right: str,
    scenes: Scene[Any] | tuple[Scene[Any], ...],
    profile: str = "core",
    must: bool = True,
) -> Callable[[Callable[..., Finding | None]], Case]:
    """Return a decorator that makes a case of its judge."""
    several = scenes if isinstance(scenes, tuple) else (scenes,)

    def made(judge: Callable[..., Finding | None]) -> Case:
        return Case(identity, side, title, right, requirements, profile, must, several, judge)

    return made


def cases_in(names: Mapping[str, Any]) -> tuple[Case, ...]:
    """Return the cases among the names of a module, in their order."""
    return tuple(value for value in names.values() if isinstance(value, Case))
