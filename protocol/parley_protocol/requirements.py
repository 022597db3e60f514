"""Which requirements of the specification speak of which message; a test holds it to the text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley_protocol.messages import CLIENT_MESSAGES, SERVER_MESSAGES

if TYPE_CHECKING:
    from collections.abc import Mapping

REQUIREMENTS_BY_MESSAGE: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys((*CLIENT_MESSAGES, *SERVER_MESSAGES), ()),
}
"""Ids of the requirements whose text names the message."""
