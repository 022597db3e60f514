"""Experiments: a grid of runs, each in a process of its own, and what came of them."""

from parley_server.experiments.experiment import Experiment, ExperimentResult

__all__ = ["Experiment", "ExperimentResult"]
