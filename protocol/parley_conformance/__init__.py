"""The conformance kit, and peers that follow a script: how the other side takes what it is sent."""

from parley_conformance.peer import NoAnswer, ScriptedDispatcher

__all__ = ["NoAnswer", "ScriptedDispatcher"]
