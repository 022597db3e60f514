"""A policy of one's own inside a Python program: the same object would serve over ZeroMQ."""

from pathlib import Path

from parley_server import run

HERE = Path(__file__).parent


class Backfill:
    """Start whatever fits, in the order of submission; large jobs may wait for ever."""

    ask = "actionable"

    def decide(self, view):
        for job in view.queue:
            view.start(job)


for name, policy in (("fifo", "fifo"), ("backfill", Backfill())):
    result = run(
        swf=HERE / "workload.swf",
        nodes=16,
        on_overrun="kill",
        policy=policy,
        out=f"runs/in-python-{name}",
        force=True,
    )
    wait = result.summary["wait"]
    print(f"{name:<9} mean wait {wait['mean']:>9,.1f} s, at most {wait['max']:>9,.1f} s")
