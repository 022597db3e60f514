"""Experiments: a grid of runs, each in a process of its own, and what came of them."""

__all__ = ["Experiment", "ExperimentResult"]


def __getattr__(name: str) -> object:
    """Import what runs experiments when it is first used; whoever only watches has no need."""
    if name == "Experiment":
        from parley_server.experiments.experiment import Experiment  # noqa: PLC0415 - see above

        return Experiment
    if name == "ExperimentResult":
        from parley_server.experiments.result import ExperimentResult  # noqa: PLC0415

        return ExperimentResult
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
