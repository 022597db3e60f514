"""What a dispatcher must keep to take its session up again after a crash."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from parley_client.errors import WrongUsage


@dataclass(frozen=True, slots=True)
class Ticket:
    """A session and the token that proves whose it is."""

    session: str
    token: str


class TicketFile:
    """Where the ticket of a session lies for the time that it is open.

    A server that starts a dispatcher again hands it the ticket in `PARLEY_SESSION` and
    `PARLEY_TOKEN`; a dispatcher that is started by others keeps it in a file.

    Args:
        path: The file; None keeps the ticket in memory only.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path

    def find(self) -> Ticket | None:
        """Return the ticket of a session that broke off, if there is one.

        Raises:
            WrongUsage: The file holds something else.
        """
        session, token = os.environ.get("PARLEY_SESSION"), os.environ.get("PARLEY_TOKEN")
        if session and token:
            return Ticket(session, token)
        if self._path is None:
            return None
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            return Ticket(content["session"], content["token"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WrongUsage(
                f"{self._path}: not the file of a session ({type(error).__name__}); "
                "remove it to begin anew"
            ) from None

    def keep(self, ticket: Ticket) -> None:
        """Note the ticket of the session that is open now; only the user may read it.

        Raises:
            WrongUsage: The file cannot be written.
        """
        if self._path is None:
            return
        new = self._path.with_name(self._path.name + ".new")
        content = json.dumps({"session": ticket.session, "token": ticket.token})
        try:
            descriptor = os.open(new, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(content)
            new.replace(self._path)
        except OSError as error:
            raise WrongUsage(f"{self._path}: cannot be written: {error.strerror}") from None

    def forget(self) -> None:
        """The session is over: there is nothing to take up."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
