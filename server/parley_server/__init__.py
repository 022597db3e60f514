"""Parley's server: it owns time, jobs and resources, and asks a dispatcher what to start."""

from parley_server.version import __version__

__all__ = ["Experiment", "RunResult", "__version__", "run"]


def __getattr__(name: str) -> object:
    """Import the Python interface when it is first used, so that the light parts stay light."""
    if name in {"run", "RunResult"}:
        from parley_server import api  # noqa: PLC0415 - importing it costs what a run costs

        return getattr(api, name)
    if name == "Experiment":
        from parley_server import experiments  # noqa: PLC0415 - likewise

        return experiments.Experiment
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
