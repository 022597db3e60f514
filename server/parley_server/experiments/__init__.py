"""Experiments: a grid of runs, each in a process of its own, and what came of them."""

__all__ = ["Experiment", "ExperimentResult"]


def __getattr__(name: str) -> object:
    """Import what runs experiments when it is first used; whoever only watches has no need."""
    if name in __all__:
        from parley_server.experiments import experiment  # noqa: PLC0415 - see above

        return getattr(experiment, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
