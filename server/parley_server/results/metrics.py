"""What a run is judged by, each with its definition and where it comes from.

All of them are over the jobs that ran to an end, however it came (completed, failed, timed out,
killed), each with the last of its attempts; a job that was rejected has no times.

`JOB_METRICS` give a value for each job, `RUN_METRICS` one for the run; both are the registry from
which the command line, the report and the documentation are made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from parley_server.errors import UsageError, did_you_mean
from parley_server.own_code import load_function, raised_by, split_reference
from parley_server.results.fairness import gini_coefficient, jain_index, overtaken, user_means
from parley_server.results.steps import combined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from parley_server.results.run_directory import JobTable
    from parley_server.results.sample import Sample

    Seconds = NDArray[np.float64]
    Ratios = NDArray[np.float64]

BOUND = 10.0
"""Seconds; the usual threshold of bounded slowdown."""


def turnaround(wait: Seconds, runtime: Seconds) -> Seconds:
    """Return the time from submission to end.

    Args:
        wait: Time in the queue, seconds, shape (jobs,).
        runtime: Time on the nodes, seconds, shape (jobs,).

    Returns:
        Seconds, shape (jobs,).

    Source: Feitelson and Rudolph, Metrics and benchmarking for parallel job scheduling, JSSPP
    1998, who call it response time.
    """
    return wait + runtime


def slowdown(wait: Seconds, runtime: Seconds) -> Ratios:
    """Return how much longer each job took than on an idle machine.

    Args:
        wait: Time in the queue, seconds, shape (jobs,).
        runtime: Time on the nodes, seconds, shape (jobs,).

    Returns:
        Dimensionless, at least 1, for the jobs whose runtime is not zero; for the others it is
        undefined and they are left out: shape (jobs with a runtime,).

    Source: Feitelson and Rudolph, JSSPP 1998.
    """
    ran = runtime > 0
    return (wait[ran] + runtime[ran]) / runtime[ran]


def bounded_slowdown(wait: Seconds, runtime: Seconds, *, threshold: float = BOUND) -> Ratios:
    """Return how much longer each job took than on an idle machine, short jobs bounded.

    Args:
        wait: Time in the queue, seconds, shape (jobs,).
        runtime: Time on the nodes, seconds, shape (jobs,).
        threshold: Runtimes are raised to this, seconds, lest one-second jobs outweigh the rest.

    Returns:
        Dimensionless, at least 1, shape (jobs,).

    Raises:
        ValueError: *threshold* is not positive.

    Source: Feitelson, Metrics for parallel job scheduling and their convergence, JSSPP 2001.
    """
    if threshold <= 0:
        raise ValueError(f"a threshold is positive, not {threshold}")
    ratios: Ratios = np.maximum(1.0, (wait + runtime) / np.maximum(runtime, threshold))
    return ratios


def per_processor_bounded_slowdown(
    wait: Seconds, runtime: Seconds, processors: Ratios, *, threshold: float = BOUND
) -> Ratios:
    """Return the bounded slowdown, shared out among the processors of each job.

    Args:
        wait: Time in the queue, seconds, shape (jobs,).
        runtime: Time on the nodes, seconds, shape (jobs,).
        processors: What each job holds, at least 1, shape (jobs,).
        threshold: Runtimes are raised to this, seconds.

    Returns:
        Dimensionless, at least 1, shape (jobs,).

    Source: Zotkin and Keleher, Job-length estimation and performance in backfilling schedulers,
    HPDC 1999, with the bound of Feitelson, JSSPP 2001.
    """
    raised = np.maximum(runtime, threshold)
    shared: Ratios = (wait + runtime) / (np.maximum(processors, 1.0) * raised)
    ratios: Ratios = np.maximum(1.0, shared)
    return ratios


# ---------------------------------------------------------------------- of each job


@dataclass(frozen=True, slots=True)
class JobMetric:
    """A value for each job.

    Attributes:
        name: As it is called in tables and files.
        title: As it is called on an axis, without its unit.
        unit: `s` and so on; empty if it has none.
        definition: In one line.
        source: Who defined it so; empty if nobody need be named.
        values: Computes it, shape (jobs,), NaN where it is undefined.
        lower_is_better: None if neither is.
    """

    name: str
    title: str
    unit: str
    definition: str
    source: str
    values: Callable[[JobTable], Ratios]
    lower_is_better: bool | None = True

    @property
    def axis(self) -> str:
        """What stands beside an axis of it."""
        return f"{self.title} ({self.unit})" if self.unit else self.title


def _ratio(above: Seconds, below: Seconds) -> Ratios:
    defined = below > 0
    ratio = np.full(len(above), np.nan)
    np.divide(above, below, out=ratio, where=defined)
    return ratio


def _processors(jobs: JobTable) -> Ratios:
    """Return what each job holds of the leading resource; its size where that is not known."""
    held = jobs.amounts.get("core")
    return jobs.size.astype(np.float64) if held is None else held


JOB_METRICS: tuple[JobMetric, ...] = (
    JobMetric("wait", "Wait", "s", "start − submission", "", lambda jobs: jobs.wait),
    JobMetric(
        "turnaround",
        "Turnaround",
        "s",
        "end − submission; also called response time",
        "Feitelson and Rudolph, JSSPP 1998",
        lambda jobs: jobs.turnaround,
    ),
    JobMetric(
        "slowdown",
        "Slowdown",
        "",
        "turnaround / execution; undefined for jobs of no length, which are left out and counted",
        "Feitelson and Rudolph, JSSPP 1998",
        lambda jobs: _ratio(jobs.turnaround, jobs.execution),
    ),
    JobMetric(
        "bounded_slowdown",
        "Bounded slowdown",
        "",
        "max(1, turnaround / max(execution, 10 s))",
        "Feitelson, JSSPP 2001",
        lambda jobs: bounded_slowdown(jobs.wait, jobs.execution),
    ),
    JobMetric(
        "per_processor_bounded_slowdown",
        "Bounded slowdown per processor",
        "",
        "max(1, turnaround / (processors × max(execution, 10 s)))",
        "Zotkin and Keleher, HPDC 1999; the bound as in Feitelson, JSSPP 2001",
        lambda jobs: per_processor_bounded_slowdown(jobs.wait, jobs.execution, _processors(jobs)),
    ),
    JobMetric(
        "stretch",
        "Stretch",
        "",
        "turnaround / walltime: how long it took against how long its user said it might; "
        "undefined without a walltime. Not Batsim's column of that name, which is the slowdown",
        "",
        lambda jobs: _ratio(jobs.turnaround, jobs.walltime),
    ),
    JobMetric(
        "execution",
        "Time on the nodes",
        "s",
        "end − start",
        "",
        lambda jobs: jobs.execution,
        lower_is_better=None,
    ),
    JobMetric(
        "walltime",
        "Walltime",
        "s",
        "the limit that was asked for",
        "",
        lambda jobs: jobs.walltime,
        lower_is_better=None,
    ),
    JobMetric(
        "accuracy",
        "Execution / walltime",
        "",
        "execution / walltime: how well users estimate; undefined without a walltime",
        "Mu'alem and Feitelson, IEEE TPDS 2001",
        lambda jobs: _ratio(jobs.execution, jobs.walltime),
        lower_is_better=None,
    ),
    JobMetric(
        "processors",
        "Processors",
        "",
        "cores that the job holds; chunks asked for, where the machine has no cores",
        "",
        _processors,
        lower_is_better=None,
    ),
    JobMetric(
        "work",
        "Work",
        "core h",
        "processors × execution, in core hours",
        "",
        lambda jobs: _processors(jobs) * jobs.execution / 3600,
        lower_is_better=None,
    ),
    JobMetric(
        "lateness",
        "Start after the announced start",
        "s",
        "start − the start that its dispatcher announced last; undefined if it announced none",
        "",
        lambda jobs: jobs.start - jobs.expected_start,
    ),
)


# ---------------------------------------------------------------------- of the run


@dataclass(frozen=True, slots=True)
class RunMetric:
    """One value for a run.

    Attributes:
        name: As it is called in tables and files.
        title: As it is called beside numbers, without its unit.
        unit: `s` and so on; empty if it has none.
        definition: In one line.
        source: Who defined it so; empty if nobody need be named.
        value: Computes it; NaN where it is undefined.
        caveat: What it does not tell.
        lower_is_better: None if neither is.
        measured: Whether it depends on the machine that simulated.
    """

    name: str
    title: str
    unit: str
    definition: str
    source: str
    value: Callable[[Sample], float]
    caveat: str = ""
    lower_is_better: bool | None = None
    measured: bool = False


def _utilisation(sample: Sample) -> float:
    run = sample.run
    if run.leading_resource not in run.jobs.amounts:
        return float("nan")
    capacity = run.machine.capacity[run.leading_resource]
    return sample.used().mean(sample.begin, sample.end) / capacity


def loss_of_capacity(sample: Sample) -> float:
    """Return the share of the machine that was free while jobs waited that it could have served.

    At every instant the lesser of what is free and of what the queue asks for, integrated over the
    window and divided by capacity times window: in [0, 1].

    Source: Zhang, Franke, Moreira and Sivasubramaniam, IPDPS 2000, who count what is free whenever
    a job waits; here no more than is asked for.
    """
    run = sample.run
    if run.leading_resource not in run.jobs.amounts or not sample.end > sample.begin:
        return float("nan")
    capacity = run.machine.capacity[run.leading_resource]
    times, used, wanted = combined(sample.used(), sample.queued_amount)
    lost = np.minimum(wanted, np.maximum(capacity - used, 0.0))
    edges = np.clip(np.append(times, sample.end), sample.begin, sample.end)
    return float((lost * np.diff(edges)).sum() / (capacity * (sample.end - sample.begin)))


def _throughput(sample: Sample) -> float:
    if not sample.end > sample.begin:
        return float("nan")
    ended = sample.run.jobs.end[sample.run.jobs.ended]
    # The last job of a run ends with it: that instant counts.
    inside = (ended >= sample.begin) & (ended <= sample.end)
    return float(inside.sum() / (sample.end - sample.begin) * 3600)


def _work_weighted(values: Callable[[JobTable], Ratios]) -> Callable[[Sample], float]:
    def value(sample: Sample) -> float:
        jobs = sample.jobs
        weights = _processors(jobs) * jobs.execution
        total = float(weights.sum())
        return float((weights * values(jobs)).sum() / total) if total else float("nan")

    return value


def _mean_slowdowns(sample: Sample) -> Ratios:
    jobs = sample.jobs
    return user_means(jobs, bounded_slowdown(jobs.wait, jobs.execution))


def _share(flags: NDArray[np.bool_]) -> float:
    return float(flags.mean()) if len(flags) else float("nan")


def _measured(name: str, scale: float = 1.0) -> Callable[[Sample], float]:
    def value(sample: Sample) -> float:
        found = sample.run.summary.get("measured", {}).get(name)
        return float("nan") if found is None else float(found) * scale

    return value


def _per_request(name: str) -> Callable[[Sample], float]:
    def value(sample: Sample) -> float:
        spent = getattr(sample.run.requests, name)
        return float(spent.mean() * 1e6) if len(spent) else float("nan")

    return value


def _dispatcher_share(sample: Sample) -> float:
    requests = sample.run.requests
    whole = requests.dispatcher.sum() + requests.server.sum() + requests.wire.sum()
    return float(requests.dispatcher.sum() / whole) if whole else float("nan")


RUN_METRICS: tuple[RunMetric, ...] = (
    RunMetric(
        "makespan",
        "Makespan",
        "s",
        "last end − first submission, of the whole run",
        "",
        lambda sample: (
            float(np.nanmax(sample.run.jobs.end) - sample.run.jobs.submit.min())
            if np.isfinite(sample.run.jobs.end).any()
            else float("nan")
        ),
        "in an open workload the last submission decides it, not the policy",
        lower_is_better=True,
    ),
    RunMetric(
        "utilisation",
        "Utilisation",
        "",
        "amount of the leading resource (cores, if there are any) × time held, clipped to the "
        "window, over capacity × window; ScSF prints the inverse of it",
        "Feitelson and Rudolph, JSSPP 1998",
        _utilisation,
        "nodes that are down count as capacity; while the machine keeps up with what is submitted, "
        "all policies have the same",
        lower_is_better=False,
    ),
    RunMetric(
        "loss_of_capacity",
        "Loss of capacity",
        "",
        "the lesser of what is free and of what waiting jobs ask for, integrated over the window, "
        "over capacity × window",
        "Zhang et al., IPDPS 2000, who count all that is free while a job waits",
        loss_of_capacity,
        "jobs that never ran are left out; a queue that stays empty loses nothing, however badly "
        "placed its jobs are",
        lower_is_better=True,
    ),
    RunMetric(
        "throughput",
        "Throughput",
        "jobs/h",
        "jobs that ended in the window, over its length",
        "",
        _throughput,
        "in an open workload it is what is submitted, as long as the machine keeps up",
        lower_is_better=False,
    ),
    RunMetric(
        "queue_mean",
        "Queue length, mean over time",
        "jobs",
        "number of waiting jobs, averaged over the window by time",
        "",
        lambda sample: sample.queue.mean(sample.begin, sample.end),
        lower_is_better=True,
    ),
    RunMetric(
        "queue_max",
        "Queue length, most",
        "jobs",
        "the largest number of jobs that wait at once for longer than an instant",
        "",
        lambda sample: sample.queue.longest(sample.begin, sample.end),
        lower_is_better=True,
    ),
    RunMetric(
        "work_weighted_wait",
        "Wait, weighted by work",
        "s",
        "mean wait, each job weighted by processors × execution",
        "Ernemann et al., JSSPP 2003 (average weighted response time); here for the wait",
        _work_weighted(lambda jobs: jobs.wait),
        "small jobs hardly count: read it beside the mean",
        lower_is_better=True,
    ),
    RunMetric(
        "overtaken",
        "Jobs overtaken",
        "",
        "share of the jobs that started after one that was submitted later",
        "",
        lambda sample: _share(overtaken(sample.jobs)),
        "to be overtaken need not harm: backfilling lives from it. It says how far an order is "
        "from first come, first served, not how unfair",
    ),
    RunMetric(
        "jain_index",
        "Jain's index of users' bounded slowdowns",
        "",
        "(Σx)² / (n Σx²) over the users' mean bounded slowdowns; 1 is equal, 1/n one against all",
        "Jain, Chiu and Hawe, DEC-TR-301, 1984",
        lambda sample: jain_index(_mean_slowdowns(sample)),
        "equally bad is fair by it; a user of one job weighs as much as one of thousands",
        lower_is_better=False,
    ),
    RunMetric(
        "gini_wait",
        "Gini's coefficient of users' waits",
        "",
        "Gini's coefficient of the users' mean waits; 0 is equal",
        "Gini, 1912",
        lambda sample: gini_coefficient(user_means(sample.jobs, sample.jobs.wait)),
        "users who ask for the whole machine wait longer under any policy: compare runs of one "
        "workload only. Fair start times would tell better; they need a simulation for each job",
        lower_is_better=True,
    ),
    RunMetric(
        "decision_time",
        "Dispatcher's time per request",
        "µs",
        "mean time that the dispatcher says it took for a reply (wall clock), over the whole run",
        "",
        _per_request("dispatcher"),
        "a dispatcher that keeps silent has 0",
        lower_is_better=True,
        measured=True,
    ),
    RunMetric(
        "server_time",
        "Server's time per request",
        "µs",
        "mean time that the server took from an answer to the next request, over the whole run",
        "",
        _per_request("server"),
        lower_is_better=True,
        measured=True,
    ),
    RunMetric(
        "dispatcher_share",
        "Dispatcher's share of the time",
        "",
        "the dispatcher's time over that of dispatcher, server and wire together",
        "",
        _dispatcher_share,
        measured=True,
    ),
    RunMetric(
        "cpu_seconds",
        "CPU time of the server's process",
        "s",
        "user and system time; with a dispatcher in process, its time as well",
        "",
        _measured("cpu_seconds"),
        lower_is_better=True,
        measured=True,
    ),
    RunMetric(
        "memory",
        "Memory of the server's process",
        "MB",
        "resident memory at the end of the run",
        "",
        _measured("memory_bytes", 1e-6),
        lower_is_better=True,
        measured=True,
    ),
)


# ---------------------------------------------------------------------- by name


def job_metric(name: str) -> JobMetric:
    """Return the metric of jobs that a name, or the path of a user's own function, stands for.

    Args:
        name: As in `JOB_METRICS`, or `path/to/file.py:function`: the function gets a `JobTable` of
            the jobs that ran to an end and returns an array, one value for each.

    Raises:
        UsageError: There is none.
    """
    for metric in JOB_METRICS:
        if metric.name == name:
            return metric
    if split_reference(name) is not None:
        return _own(name)
    known = [metric.name for metric in JOB_METRICS]
    raise UsageError(
        f"there is no metric {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}, or "
        "path/to/file.py:function"
    )


def _own(reference: str) -> JobMetric:
    function = load_function(reference, kind="metric")
    name = reference.rpartition(":")[2]

    def values(jobs: JobTable) -> Ratios:
        try:
            found = np.asarray(function(jobs), dtype=np.float64)
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            raise UsageError(f"{reference}: {raised_by(error)}") from None
        if found.shape != (len(jobs),):
            raise UsageError(
                f"{reference}: gives an array of shape {found.shape} for {len(jobs)} jobs"
            )
        return found

    told = (function.__doc__ or "").strip().partition("\n")[0] or f"{reference}"
    return JobMetric(name, name.replace("_", " ").capitalize(), "", told, reference, values)


def documentation() -> Iterator[str]:
    """Yield the lines of the tables, in Markdown, that tell what each metric is."""
    yield "| of each job | unit | definition | source |"
    yield "|---|---|---|---|"
    for job in JOB_METRICS:
        yield f"| `{job.name}` | {job.unit} | {job.definition} | {job.source} |"
    yield ""
    yield "| of the run | unit | definition | source | what it does not tell |"
    yield "|---|---|---|---|---|"
    for run in RUN_METRICS:
        yield f"| `{run.name}` | {run.unit} | {run.definition} | {run.source} | {run.caveat} |"
