"""Servers for the tests of sessions."""

from __future__ import annotations

import pytest

from parley_conformance import ScriptedDispatcher
from tests.serving import (
    serving,
)


@pytest.fixture
def server(tmp_path):
    with serving(tmp_path) as server:
        yield server


@pytest.fixture
def lone(server):
    """A peer with a server of its own."""
    with ScriptedDispatcher(server.endpoint) as peer:
        yield peer


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    """A server for all tests that ask nothing of it afterwards: to end one takes its time."""
    with serving(tmp_path_factory.mktemp("standing")) as server:
        yield server


@pytest.fixture
def peer(standing):
    with ScriptedDispatcher(standing.endpoint) as peer:
        yield peer
