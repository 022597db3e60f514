"""All cases, of both sides."""

from parley_conformance.dispatchers import DISPATCHER_CASES

ALL_CASES = (*DISPATCHER_CASES,)
