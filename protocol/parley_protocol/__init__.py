"""The Parley dispatch protocol: messages, codec, session table, errors; no I/O and no clock."""

from parley_protocol.codec import (
    FROM_CLIENT,
    FROM_SERVER,
    Dialect,
    Limits,
    decode,
    encode,
    read_client_message,
    read_server_message,
)
from parley_protocol.conversation import NEXT, Conversation, Role, State, legal
from parley_protocol.errors import DECISION_CODES, MESSAGE_CODES, CodeInfo, ProtocolError
from parley_protocol.messages import PROTOCOL_VERSION
from parley_protocol.scalars import MAX_INTEGER

__all__ = [
    "DECISION_CODES",
    "FROM_CLIENT",
    "FROM_SERVER",
    "MAX_INTEGER",
    "MESSAGE_CODES",
    "NEXT",
    "PROTOCOL_VERSION",
    "CodeInfo",
    "Conversation",
    "Dialect",
    "Limits",
    "ProtocolError",
    "Role",
    "State",
    "decode",
    "encode",
    "legal",
    "read_client_message",
    "read_server_message",
]
