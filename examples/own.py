"""A policy, an order and an allocator of one's own, to be named by where they stand.

parley run examples/first.toml --policy examples/own.py:Reserve --set nodes=4
parley run examples/first.toml --policy easy --order examples/own.py:area
parley run examples/first.toml --allocator examples/own.py:LastFit
"""


class Reserve:
    """Start whatever fits, but keep some nodes for jobs of one node."""

    ask = "actionable"

    def __init__(self, nodes: int = 2):
        self.nodes = nodes

    def decide(self, view):
        for job in view.queue:
            kept = 0 if job.chunks == 1 else self.nodes
            if view.cluster.available(job.shape) - kept >= job.chunks:
                view.start(job)
        # A job that leaves too little even on the empty machine would wait for ever.
        if not view.running and view.queue.head is not None:
            view.start(view.queue.head)


def area(job, now_us):
    """Nodes times time, the least first."""
    return job.chunks * job.walltime_us


area.timeless = True


class LastFit:
    """The highest-numbered nodes; of whole nodes only."""

    fits_by_count = True

    def allocate(self, job, cluster):
        usable = [node for node, free in enumerate(cluster.room(job.shape).usable) if free]
        if len(usable) < job.chunks:
            return None
        return [(node, node, 1) for node in usable[-job.chunks :]]
