"""The kit as a dispatcher: dialogues with a server, and the cases that are judged by them."""

from parley_conformance.servers.codec import CASES as _CODEC
from parley_conformance.servers.course import CASES as _COURSE
from parley_conformance.servers.course_nodes import CASES as _COURSE_NODES
from parley_conformance.servers.course_state import CASES as _COURSE_STATE
from parley_conformance.servers.deciding import CASES as _DECIDING
from parley_conformance.servers.lasting import CASES as _LASTING
from parley_conformance.servers.sequence import CASES as _SEQUENCE

SERVER_CASES = (
    *_COURSE,
    *_COURSE_STATE,
    *_COURSE_NODES,
    *_SEQUENCE,
    *_CODEC,
    *_DECIDING,
    *_LASTING,
)

__all__ = ["SERVER_CASES"]
