"""A reader of a user's own: a Python function, named by the path of its file.

def read(path):
    for row in database.rows():
        yield {"id": row.id, "submit": row.submit, "runtime": row.runtime, "processors": row.size}

It yields mappings with the keys of Parley's JSON Lines. What it returns is read once, unless the
function has an attribute `rewindable` that is true: then calling it again gives the same jobs.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley_server.errors import InputError, ParleyError, UsageError
from parley_server.workload.entry import Malformed
from parley_server.workload.files import OneWay
from parley_server.workload.jsonlines import require_known
from parley_server.workload.reader import Records
from parley_server.workload.values import entry_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from parley_server.workload.entry import Entry
    from parley_server.workload.report import ReadReport


def split_reference(text: str) -> tuple[Path, str] | None:
    """Return file and function of `path/to/file.py:function`, or None if it is none."""
    file, colon, name = text.rpartition(":")
    if not colon or not file.endswith(".py") or not name.isidentifier():
        return None
    return Path(file), name


def load_function(reference: str) -> Callable[..., Any]:
    """Return the function that a reference names.

    Raises:
        UsageError: There is none, or its file cannot be run.
    """
    parts = split_reference(reference)
    if parts is None:
        raise UsageError(f"{reference!r} is no reader; write path/to/file.py:function")
    file, name = parts
    spec = importlib.util.spec_from_file_location(f"parley_reader_{file.stem}", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise UsageError(f"{reference}: there is no file {str(file)!r}")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001 - whatever a user's file raises
        raise UsageError(f"{file}: {_told(error)}") from None
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"{file}: there is no function {name!r} in it")
    return function  # type: ignore[no-any-return]


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
            raise InputError(f"{self.name}: {_told(error)}") from None


def _entry(values: Any) -> Entry:
    if not isinstance(values, dict):
        raise Malformed(f"expected a dict of values by name, not {type(values).__name__}")
    require_known({str(key): value for key, value in values.items()})
    return entry_of(values)


def _told(error: BaseException) -> str:
    """Return an exception in one line, with the place it came from."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = f" ({Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno})" if frame else ""
    return f"{type(error).__name__}: {error}{where}"
