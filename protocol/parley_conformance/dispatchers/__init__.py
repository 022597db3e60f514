"""The kit as a server: dialogues with a dispatcher, and the cases that are judged by them."""

from parley_conformance.dispatchers.bearing import CASES as _BEARING
from parley_conformance.dispatchers.speech import CASES as _SPEECH

DISPATCHER_CASES = (*_SPEECH, *_BEARING)

__all__ = ["DISPATCHER_CASES"]
