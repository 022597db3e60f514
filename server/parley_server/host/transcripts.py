"""The file that a session's dialogue is written to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley_protocol.codec import encode
from parley_protocol.transcript import TranscriptWriter
from parley_server.errors import OutputError
from parley_server.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from parley_protocol.transcript import Direction
    from parley_server.host.session import Offer


class TranscriptFile:
    """A transcript that is being written.

    Attributes:
        token: The session's, once it has one: wherever it turns up, asterisks stand in its place.

    Raises:
        OutputError: The file cannot be created.
    """

    def __init__(self, path: Path, offer: Offer) -> None:
        self.path = path
        self.token = ""
        self._writer = TranscriptWriter()
        try:
            self._file = path.open("w", encoding="utf-8", newline="\n")
        except OSError as error:
            raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None
        self._write(
            self._writer.header(
                scenario={"name": offer.name, "digest": offer.digest},
                software={"name": "parley", "version": __version__},
            )
        )

    def note(
        self,
        direction: Direction,
        frame: bytes,
        message: Mapping[str, Any] | None,
        *,
        now_us: int,
        charged_us: int | None = None,
    ) -> None:
        """Write the line of a message.

        Raises:
            OutputError: It cannot be written.
        """
        self._write(
            self._writer.message(
                direction,
                frame,
                message,
                now_us=now_us,
                charged_us=charged_us,
                secret=self.token,
            )
        )

    def flush(self) -> None:
        """Hand everything to the operating system.

        Raises:
            OutputError: It cannot be written.
        """
        try:
            self._file.flush()
        except OSError as error:
            raise OutputError(f"{self.path}: cannot be written: {error.strerror}") from None

    def close(self) -> None:
        """Write the footer, once.

        Raises:
            OutputError: It cannot be written.
        """
        if self._file.closed:
            return
        try:
            self._file.write(self._writer.footer())
            self._file.close()
        except OSError as error:
            raise OutputError(f"{self.path}: cannot be written: {error.strerror}") from None

    def _write(self, line: str) -> None:
        try:
            self._file.write(line)
        except OSError as error:
            raise OutputError(f"{self.path}: cannot be written: {error.strerror}") from None


class Dialogue:
    """Writes what is said in process as it would have been said over the wire."""

    def __init__(self, transcript: TranscriptFile) -> None:
        self._transcript = transcript
        self._seq = 0

    def sent(self, kind: str, body: Any, *, now_us: int, charged_us: int | None = None) -> None:
        """Note a message to the dispatcher.

        Raises:
            OutputError: It cannot be written.
        """
        self._seq += 1
        message = {"v": 1, "type": kind, **_SESSION, "seq": self._seq, "body": body}
        self._note(">", message, now_us, charged_us)

    def received(self, kind: str, body: Any, *, now_us: int) -> None:
        """Note a message from the dispatcher.

        Raises:
            OutputError: It cannot be written.
        """
        message: dict[str, Any] = {"v": 1, "type": kind, "body": body}
        if kind != "hello":
            message = {"v": 1, **_SESSION, "type": kind, "body": body, "re": self._seq}
        self._note("<", message, now_us, None)

    def _note(
        self, direction: Direction, message: Mapping[str, Any], now_us: int, charged_us: int | None
    ) -> None:
        self._transcript.note(
            direction, encode(message), message, now_us=now_us, charged_us=charged_us
        )


_SESSION = {"session": "1", "epoch": 1}
