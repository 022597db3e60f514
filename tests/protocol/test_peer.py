"""The scripted peer itself."""

from __future__ import annotations

import pytest

from parley_conformance import NoAnswer, ScriptedDispatcher


def test_a_peer_without_a_server_gives_up(tmp_path):
    peer = ScriptedDispatcher(f"ipc://{tmp_path}/nobody", timeout=0.1)

    with peer, pytest.raises(NoAnswer):
        peer.hello()
