"""A reader of a user's own: a Python function, named by the path of its file.

def read(path):
    for row in database.rows():
        yield {"id": row.id, "submit": row.submit, "runtime": row.runtime, "processors": row.size}

It yields mappings with the keys of Parley's JSON Lines. What it returns is read once, unless the
function has an attribute `rewindable` that is true: then calling it again gives the same jobs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley_server.errors import InputError, ParleyError
from parley_server.own_code import load_function, raised_by
from parley_server.workload.entry import Malformed
from parley_server.workload.files import OneWay
from parley_server.workload.jsonlines import require_known
from parley_server.workload.reader import Records
from parley_server.workload.values import entry_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parley_server.workload.entry import Entry
    from parley_server.workload.report import ReadReport


class OwnReader(Records):
    """The jobs that a user's function gives.

    Args:
        path: What the function is called with; None calls it with nothing.
        report: Where jobs are counted.
        reference: Which function.
        strict: A malformed job is an error.
    """

    def __init__(
        self, path: Path | None, report: ReadReport, reference: str, *, strict: bool = False
    ) -> None:
        self._function = load_function(reference)
        self._argument = () if path is None else (str(path),)
        super().__init__(path or Path(reference), report, strict=strict)
        self.trouble.name = reference

    def where(self) -> str:
        """Return which job was read last, from 1 on."""
        return f"job {self.report.lines}"

    def place(self) -> object:
        """Return how many jobs were read.

        Raises:
            OneWay: The function does not say that it is rewindable.
        """
        if not getattr(self._function, "rewindable", False):
            raise OneWay(
                f"{self.name}: read once; set {self._function.__name__}.rewindable = True "
                "if calling it again gives the same jobs"
            )
        return super().place()

    def entries(self) -> Iterator[Entry | None]:
        """Yield an entry for every job, None for one that is malformed."""
        for values in self._values():
            self.report.lines += 1
            try:
                yield _entry(values)
            except Malformed as error:
                self.trouble.malformed(self.where(), str(error))
                yield None

    def _values(self) -> Iterator[Any]:
        try:
            yield from self._function(*self._argument)
        except (ParleyError, GeneratorExit):
            raise
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            raise InputError(f"{self.name}: {raised_by(error)}") from None


def _entry(values: Any) -> Entry:
    if not isinstance(values, dict):
        raise Malformed(f"expected a dict of values by name, not {type(values).__name__}")
    require_known({str(key): value for key, value in values.items()})
    return entry_of(values)
