"""What a view tells whoever keeps an index beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from parley_client.job import Job, RunningJob


class Watcher(Protocol):
    """Is told of every change at once, be it the server's or one's own decision.

    A start that the server refuses is told as `ended`, then `joined`.
    """

    def joined(self, job: Job) -> None:
        """A job is pending from now on, for the first time or again."""
        ...

    def left(self, job: Job) -> None:
        """A job is pending no more, and will not start."""
        ...

    def started(self, running: RunningJob) -> None:
        """A job that was pending runs."""
        ...

    def ended(self, running: RunningJob) -> None:
        """A job runs no more."""
        ...

    def reloaded(self) -> None:
        """Everything known was replaced; nothing more will be told, unless watched anew."""
        ...
