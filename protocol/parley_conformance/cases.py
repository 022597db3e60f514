"""All cases, of both sides."""

from parley_conformance.dispatchers import DISPATCHER_CASES
from parley_conformance.servers import SERVER_CASES

ALL_CASES = (*DISPATCHER_CASES, *SERVER_CASES)
