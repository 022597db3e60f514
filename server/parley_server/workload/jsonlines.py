"""Parley's own format of workloads: one JSON object per line.

{"parley": "workload", "version": 1, "header": {"UnixStartTime": "1027839845"}}
{"id": 1, "submit": 0, "runtime": 120, "processors": 4, "walltime": 300, "user": "ada"}
{"id": 2, "submit": 7.5, "runtime": 60, "request": [{"chunks": 2, "per_chunk": {"gpu": 1}}]}

The first of these lines may be left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley_server.errors import did_you_mean
from parley_server.workload.entry import Malformed
from parley_server.workload.files import LONGEST_LINE
from parley_server.workload.reader import LineRecords
from parley_server.workload.values import KEYS, entry_of, read_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from parley_server.workload.entry import Entry

VERSION = 1


def require_known(values: Mapping[str, Any]) -> None:
    """Do nothing if every key is known.

    Raises:
        Malformed: One is not.
    """
    for name in values:
        if name not in KEYS:
            hint = did_you_mean(name, KEYS)
            raise Malformed(
                f"field {name[:48]!r} is unknown{hint}; further columns go into 'attributes'"
            )


class JsonLinesReader(LineRecords):
    """The jobs of a file of JSON lines."""

    def entries(self) -> Iterator[Entry | None]:
        """Yield an entry for every line, None for one that is no job."""
        for line in self.blocks.lines():
            self.report.lines += 1
            if not line.strip():
                self.report.comments += 1
                yield None
                continue
            try:
                yield self._entry(line)
            except Malformed as error:
                self.trouble.malformed(self.where(), str(error))
                yield None

    def _entry(self, line: bytes) -> Entry | None:
        if len(line) >= LONGEST_LINE:
            raise Malformed(f"longer than {LONGEST_LINE} bytes")
        values = read_json(line.removeprefix(b"\xef\xbb\xbf"))
        if not isinstance(values, dict):
            raise Malformed('expected an object such as {"id": 1, "submit": 0, ...}')
        if "parley" in values:
            self._on_header(values)
            return None
        require_known(values)
        return entry_of(values)

    def _on_header(self, values: Mapping[str, Any]) -> None:
        if values["parley"] != "workload" or values.get("version") != VERSION:
            raise Malformed(f"expected version {VERSION} of a workload")
        header = values.get("header", {})
        if not isinstance(header, dict):
            raise Malformed("field 'header': expected texts by name")
        self.report.comments += 1
        for key, value in list(header.items())[:1000]:
            self.header.setdefault(str(key), str(value))
