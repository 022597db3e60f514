"""Every answer of a run on disk before it is carried out, so that the run survives its server.

JSON Lines: a header, then a line for each answer and for each time the run was taken up again.
Every line carries the digest of all before it; the last may be broken off, and is then none.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from parley_server.errors import InputError, OutputError, UsageError
from parley_server.host import translate
from parley_server.host.session import Terms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from parley_server.engine import Simulation

VERSION = 1

_DIGEST_EVERY = 1000
"""Answers from one digest of the whole state to the next."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One answer.

    Attributes:
        place: File and line, for errors.
        now_us: The instant that was asked about.
        version: The state that was asked about.
        latency_us: What the answer was charged.
        decisions: As they came.
        digest: Of the whole state before it, now and then.
    """

    place: str
    now_us: int
    version: int
    latency_us: int
    decisions: Sequence[Any]
    digest: str | None

    def require(self, now_us: object, version: object, digest: str | None) -> None:
        """Do nothing if the run has come to where it was.

        Raises:
            InputError: It has not.
        """
        if (now_us, version) != (self.now_us, self.version) or digest != self.digest:
            raise InputError(
                f"{self.place}: the run asks at {now_us} us, version {version}; when the journal "
                f"was written it asked at {self.now_us} us, version {self.version}: another "
                "version of the program, or the journal of another run"
            )


class Journal:
    """An open journal; `create` or `reopen` makes one.

    Attributes:
        path: Where it lies.
        terms: What was agreed with the first dispatcher, once that is so.
        resumed: How often the run was taken up again.
    """

    def __init__(self, path: Path, digest: str, descriptor: int) -> None:
        self.path = path
        self.terms: Terms | None = None
        self.resumed = 0
        self._digest = digest
        self._descriptor = descriptor
        try:
            # It is let go of when the process ends, however that happens.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise UsageError(
                f"{path}: another process writes there; is that run still going on?"
            ) from None
        self._chain = ""
        self._count = 0

    @classmethod
    def create(cls, path: Path, digest: str) -> Journal:
        """Begin the journal of a run.

        Args:
            path: Nothing lies there yet.
            digest: That of the scenario.

        Raises:
            OutputError: It cannot be written.
        """
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND, 0o644)
        except OSError as error:
            raise OutputError(f"{path}: cannot be written: {error.strerror}") from None
        return cls(path, digest, descriptor)

    @classmethod
    def reopen(cls, path: Path, digest: str) -> Journal:
        """Open the journal of a run that broke off; `entries` must be read before it goes on.

        Raises:
            InputError: It cannot be read, or is the journal of another scenario.
        """
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            raise InputError(
                f"{path}: there is no journal; was the run made with --journal?"
            ) from None
        except OSError as error:
            raise InputError(f"{path}: cannot be opened: {error.strerror}") from None
        return cls(path, digest, descriptor)

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    # ------------------------------------------------------------------ writing

    def begin(self, terms: Terms) -> None:
        """Note what was agreed with the first dispatcher.

        Raises:
            OutputError: It cannot be written.
        """
        self.terms = terms
        self._write(
            {
                "journal": VERSION,
                "scenario": self._digest,
                "ask": terms.ask,
                "wants": list(terms.wants),
                "decisions": terms.decisions,
                "submit": terms.submit,
            }
        )

    def append(
        self, simulation: Simulation, decisions: Sequence[Any], latency_us: int, *, version: int
    ) -> None:
        """Note an answer that is about to be carried out.

        Raises:
            OutputError: It cannot be written.
        """
        line: dict[str, Any] = {
            "now_us": simulation.now,
            "version": version,
            "latency_us": latency_us,
            "decisions": decisions,
        }
        if self._count % _DIGEST_EVERY == 0:
            line["state"] = translate.digest(simulation)
        self._count += 1
        self._write(line)

    def note_resumption(self) -> None:
        """Note that the run is taken up again from here.

        Raises:
            OutputError: It cannot be written.
        """
        self.resumed += 1
        self._write({"resumed": self.resumed})

    def _write(self, line: dict[str, Any]) -> None:
        text = json.dumps(line, separators=(",", ":"))
        chain = _chained(self._chain, text)
        data = f'{text[:-1]},"chain":"{chain}"}}\n'.encode()
        try:
            # Unbuffered: what the system has taken outlives this process, however that ends.
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            raise OutputError(f"{self.path}: cannot be written: {error.strerror}") from None
        self._chain = chain

    # ------------------------------------------------------------------ reading

    def read_terms(self) -> bool:
        """Read the header into `terms`; whether there is one: without, nothing has happened yet.

        Raises:
            InputError: It is the journal of another scenario, or none.
        """
        header = next(self._lines(), None)
        if header is None:
            return False
        place, line = header
        if line.get("journal") != VERSION:
            raise InputError(f"{place}: no journal that this version of parley understands")
        if line.get("scenario") != self._digest:
            raise InputError(
                f"{place}: the journal of another scenario; has the trace, the platform or a "
                "setting changed since?"
            )
        self.terms = Terms(line["ask"], tuple(line["wants"]), line["decisions"], line["submit"])
        return True

    def entries(self) -> Iterator[JournalEntry]:
        """Yield every answer; afterwards what was broken off is gone, and writing may go on.

        Raises:
            InputError: A line before the last is damaged.
        """
        self._count = self.resumed = 0
        lines = self._lines()
        next(lines, None)
        for place, line in lines:
            if "resumed" in line:
                self.resumed = line["resumed"]
                continue
            self._count += 1
            yield JournalEntry(
                place,
                line["now_us"],
                line["version"],
                line["latency_us"],
                line["decisions"],
                line.get("state"),
            )

    def _lines(self) -> Iterator[tuple[str, dict[str, Any]]]:
        chain, end = "", 0
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            file.seek(0)
            for number, data in enumerate(file, 1):
                if not data.endswith(b"\n"):
                    break
                place = f"{self.path}: line {number}"
                line = _parsed(data, chain)
                if line is None and not file.read(1):
                    break
                if line is None:
                    raise InputError(
                        f"{place}: damaged: not what was written there; the lines before it "
                        "can be kept: cut the file there"
                    )
                chain = line.pop("chain")
                end += len(data)
                self._chain = chain
                yield place, line
        os.ftruncate(self._descriptor, end)


def _parsed(data: bytes, chain: str) -> dict[str, Any] | None:
    """Return what a line holds, or None if it is not the line that followed there."""
    text, mark, rest = data.decode("utf-8", "replace").rpartition(',"chain":"')
    if not mark or _chained(chain, text + "}") != rest.rstrip('"}\n'):
        return None
    line: dict[str, Any] = json.loads(text + "}")
    line["chain"] = rest.rstrip('"}\n')
    return line


def _chained(chain: str, text: str) -> str:
    return sha256(f"{chain}{text}".encode()).hexdigest()[:16]
