"""Start the job that asks for the least time; wait where it does not fit."""

from parley_client import serve


def shortest_first(view):
    """Start pending jobs by ascending walltime until one does not fit."""
    for job in sorted(view.queue, key=lambda job: job.walltime_us):
        if not view.start(job):
            break


# It does nothing while no pending job could start, so it need not be asked then.
shortest_first.ask = "actionable"

serve(shortest_first)
