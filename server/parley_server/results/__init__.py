"""What a run leaves behind: rows as it goes, a summary at its end."""

from parley_server.results.recorder import Recorder, RunFiles, prepare_directory, reopen_directory
from parley_server.results.summary import RunDescription

__all__ = ["Recorder", "RunDescription", "RunFiles", "prepare_directory", "reopen_directory"]
