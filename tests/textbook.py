"""FCFS, EASY and conservative backfilling as a textbook has them: no index, no node, no engine.

Jobs are (submit, size, runtime, estimate) in whole seconds, in reading order; nodes are counted.
Runtimes are cut at the estimate if *kills*. Within one instant: ends, then arrivals, then one
pass; another one if the pass started a job of zero length.
"""

import math
from bisect import insort
from heapq import heappop, heappush


def simulate(jobs, nodes, decide, *, kills=True):
    """Return the start of each job; decide(now, queue, running, state) lists what starts now."""
    runtimes = [min(r, e) if kills else r for _, _, r, e in jobs]
    queue, running, starts, state = [], {}, {}, {}
    times = {job[0] for job in jobs}
    while times:
        now = min(times)
        times.remove(now)
        state["over"] = [j for j in running if starts[j] + runtimes[j] == now]
        for j in state["over"]:
            del running[j]
        queue += [j for j in range(len(jobs)) if jobs[j][0] == now and j not in {*queue, *starts}]
        for j in decide(now, queue, running, state, jobs, nodes):
            starts[j], running[j] = now, now + jobs[j][3]
            queue.remove(j)
            times.add(now + runtimes[j])
        times |= {at for at in state.get("plan", {}).values() if at > now}
    return starts


def fcfs(now, queue, running, state, jobs, nodes):
    free, chosen = nodes - sum(jobs[j][1] for j in running), []
    for j in queue:
        if jobs[j][1] > free:
            break
        free -= jobs[j][1]
        chosen.append(j)
    return chosen


def easy(now, queue, running, state, jobs, nodes):
    chosen = fcfs(now, queue, running, state, jobs, nodes)
    ends = [(end if end > now else now + 1, jobs[j][1]) for j, end in running.items()]
    ends += [(now + max(jobs[j][3], 1), jobs[j][1]) for j in chosen]
    free = nodes - sum(size for _, size in ends)
    rest = [j for j in queue if j not in chosen]
    if not rest:
        return chosen
    shadow = min(
        t for t, _ in ends if free + sum(size for end, size in ends if end <= t) >= jobs[rest[0]][1]
    )
    extra = free + sum(size for end, size in ends if end <= shadow) - jobs[rest[0]][1]
    for j in rest[1:]:
        _, size, _, estimate = jobs[j]
        in_time = now + max(estimate, 1) <= shadow
        if size <= free and (in_time or size <= extra):
            chosen.append(j)
            free -= size
            extra -= 0 if in_time else size
    return chosen


def conservative(compress):
    """Return the rule whose reservations move up in the order of *compress*(plan, jobs)."""

    def decide(now, queue, running, state, jobs, nodes):
        plan = state.setdefault("plan", {})
        held = [(now, max(end, now + 1), jobs[j][1]) for j, end in running.items()]
        length = [max(job[3], 1) for job in jobs]

        def earliest(j):
            busy = held + [(s, s + length[k], jobs[k][1]) for k, s in plan.items() if k != j]

            def fits(at):
                instants = {at, *(s for s, _, _ in busy if at < s < at + length[j])}
                used = (sum(n for s, end, n in busy if s <= t < end) for t in instants)
                return jobs[j][1] + max(used) <= nodes

            return next(at for at in sorted({now, *(end for _, end, _ in busy)}) if fits(at))

        if any(state["ends"][j] > now for j in state["over"]):
            for j in compress(plan, jobs):
                plan[j] = min(plan[j], earliest(j))
        for j in queue:
            if j not in plan:
                plan[j] = earliest(j)
        chosen = [j for j in queue if plan[j] == now]
        for j in chosen:
            del plan[j]
            state.setdefault("ends", {})[j] = now + length[j]
        return chosen

    return decide


def plan_order(plan, jobs):
    return sorted(plan, key=lambda j: (plan[j], max(jobs[j][3], 1), j))


def submit_order(plan, jobs):
    return sorted(plan)


def nothing(plan, jobs):
    return []


def easy_at_length(jobs, nodes):
    """Return each job's start under EASY, by walking the whole queue in every pass.

    The same rules as `easy`, for traces: completions come from a heap, and running jobs are kept
    in the order of their estimated ends. Jobs are in order of submission and killed in time.
    """
    starts, queue, running, done, free, coming = {}, [], [], [], nodes, 0
    while coming < len(jobs) or done:
        now = min(
            done[0][0] if done else math.inf,
            jobs[coming][0] if coming < len(jobs) else math.inf,
        )
        while done and done[0][0] == now:
            _, j = heappop(done)
            free += jobs[j][1]
            running.remove((starts[j] + max(jobs[j][3], 1), j))
        while coming < len(jobs) and jobs[coming][0] == now:
            queue.append(coming)
            coming += 1
        shadow = extra = None
        waiting = []
        for at, j in enumerate(queue):
            _, size, runtime, estimate = jobs[j]
            end = now + max(estimate, 1)
            if size <= free and (shadow is None or end <= shadow or size <= extra):
                starts[j] = now
                free -= size
                extra = extra if extra is None or end <= shadow else extra - size
                insort(running, (end, j))
                heappush(done, (now + min(runtime, estimate), j))
                continue
            waiting.append(j)
            if shadow is None:
                extra = free - size
                ends = iter(running)
                while extra < 0:
                    shadow, k = next(ends)
                    extra += jobs[k][1]
                extra += sum(jobs[k][1] for end, k in ends if end == shadow)
            if not free:
                waiting += queue[at + 1 :]
                break
        queue = waiting
    return starts
