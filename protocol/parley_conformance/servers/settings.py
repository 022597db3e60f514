"""The scenarios that a server under test is to offer, in the forms in which it may read them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from parley_conformance.machine import SECOND, Change, Job, Plan

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DEADLINE_MS = 700
"""Where a deadline is to be missed; an answer in time must not take so long on a busy machine."""

LATENCY = 5

_JOBS = (
    *(Job(0, 2, 3607, 7200), Job(0, 2, 1803, 3600), Job(10, 4, 611, 600), Job(10, 1, 0, 60)),
    *(Job(10, 9, 100, 200), Job(5011, 1, 97, 120), Job(5011, 1, 89, 120)),
)
"""One overruns its walltime, one has no length, one is too large for the machine."""

_CHANGES = (
    *(Change(25, "down", [[0, 1]]), Change(40, "down", [[3, 3]])),
    *(Change(2000, "up", [[0, 1]]), Change(2500, "up", [[3, 3]])),
)

_SHARED_GROUPS = (
    ("thin", 3, {"core": 4, "memory": 16}),
    ("fat", 1, {"core": 8, "memory": 64, "gpu": 2}),
)


def _sharing(submit: int, chunks: int, runtime: int, walltime: int) -> Job:
    return Job(submit, chunks, runtime, walltime, {"core": 2}, exclusive=False)


@dataclass(frozen=True, slots=True)
class Setting:
    """A scenario.

    Attributes:
        name: Under which it is offered.
        about: In a sentence.
        plan: What is simulated.
        policy: What the welcome is to say of the session, where it matters.
        session: The same in the words of a Parley scenario.
        deadline_ms: Wall time for each answer.
    """

    name: str
    about: str
    plan: Plan
    policy: Mapping[str, Any] = field(default_factory=dict)
    session: Mapping[str, Any] = field(default_factory=dict)
    deadline_ms: int = 60_000
    digest: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the scenario in a form for any server."""
        plan = self.plan
        return {
            "name": self.name,
            "about": self.about,
            "platform": plan.platform,
            "jobs": [
                {
                    "name": str(number + 1),
                    "submit_us": job.submit * SECOND,
                    "runtime_us": job.runtime * SECOND,
                    **({"walltime_us": job.walltime * SECOND} if job.walltime else {}),
                    "request": [
                        {
                            "chunks": job.chunks,
                            "per_chunk": dict(job.per_chunk),
                            "exclusive": job.exclusive,
                        }
                    ],
                }
                for number, job in enumerate(plan.jobs)
            ],
            "node_changes": [
                {"at_us": one.at * SECOND, "state": one.state, "nodes": list(one.nodes)}
                for one in plan.changes
            ],
            "on_overrun": plan.on_overrun,
            "submit": plan.submit,
            "state_digest": self.digest,
            "deadline_ms": self.deadline_ms,
            "policy": {
                "on_reject": plan.on_reject,
                "reasks": plan.reasks,
                "on_timeout": "fail",
                "on_disconnect": "fail",
                "on_node_down": plan.on_node_down,
                **({"latency_us": plan.latency * SECOND} if plan.latency else {}),
                "latency_model": "fixed" if plan.latency else "zero",
                **self.policy,
            },
        }

    def as_toml(self) -> str:
        """Return it as a scenario of Parley's; the workload is in a file beside it."""
        plan = self.plan
        lines = ["[platform]"]
        if len(plan.groups) == 1:
            lines += [f"nodes = {plan.groups[0][1]}"]
        for name, count, capacity in plan.groups if len(plan.groups) > 1 else ():
            amounts = ", ".join(f"{kind} = {amount}" for kind, amount in capacity.items())
            lines += ["[[platform.groups]]", f'name = "{name}"', f"nodes = {count}"]
            lines += [f"per_node = {{ {amounts} }}"]
        lines += ["[workload]", f'swf = "{self.name}.swf"']
        if plan.jobs and not plan.jobs[0].exclusive:
            lines += ['request = "processors"', "per_processor = { core = 2 }"]
        lines += ["[run]", f'name = "{self.name}"', f'on_overrun = "{plan.on_overrun}"']
        lines += [f'deadline = "{self.deadline_ms / 1000:g}s"']
        lines += [f'on_node_down = "{plan.on_node_down}"', "[session]"]
        for key, value in self.session.items():
            lines.append(f"{key} = {json.dumps(value)}")
        for change in plan.changes:
            nodes = " ".join(f"{first}-{last}" for first, last in change.nodes)
            lines += ["[[node_changes]]", f'at = "{change.at}s"', f'nodes = "{nodes}"']
            lines += [f'state = "{change.state}"']
        return "\n".join(lines) + "\n"

    def as_swf(self) -> str:
        """Return its workload in the Standard Workload Format."""
        return "".join(
            f"{number + 1} {job.submit} -1 {job.runtime} {job.chunks} -1 -1 {job.chunks} "
            f"{job.walltime or -1} -1 1 -1 -1 -1 -1 -1 -1 -1\n"
            for number, job in enumerate(self.plan.jobs)
        )


PLAIN = Setting("plain", "four nodes, six jobs; nothing goes wrong", Plan(jobs=_JOBS))

FULL = Setting(
    "full",
    "nodes fail, jobs end at their walltime, the dispatcher may submit jobs and be lost",
    Plan(jobs=_JOBS, changes=_CHANGES, on_overrun="kill", submit=True),
    policy={"on_disconnect": "wait"},
    session={"dynamic_jobs": True, "state_digest": True, "on_disconnect": "wait"},
    digest=True,
)

REQUEUE = Setting(
    "requeue",
    "jobs on nodes that fail are requeued",
    Plan(jobs=_JOBS, changes=_CHANGES, on_node_down="requeue"),
)

SLOW = Setting(
    "slow",
    f"each decision takes {LATENCY} s of simulated time",
    Plan(jobs=_JOBS, latency=LATENCY),
    session={"latency": f"fixed:{LATENCY}s"},
)

REASK = Setting(
    "reask",
    "refused decisions are asked about again, twice at most",
    Plan(jobs=_JOBS, on_reject="reask", reasks=2),
    session={"on_reject": "reask", "reasks": 2},
)

BRITTLE = Setting(
    "brittle",
    "a refused decision or a missed deadline ends the run, a lost dispatcher is waited for shortly",
    Plan(jobs=_JOBS, on_reject="fail"),
    policy={"on_disconnect": "wait", "reconnect_ms": 700},
    session={"on_reject": "fail", "on_disconnect": "wait", "reconnect": "0.7s"},
    deadline_ms=DEADLINE_MS,
)

HASTY = Setting(
    "hasty",
    "a late reply counts as empty",
    Plan(jobs=_JOBS),
    policy={"on_timeout": "empty"},
    session={"on_timeout": "empty"},
    deadline_ms=DEADLINE_MS,
)

DETACHED = Setting(
    "detached",
    "a dispatcher that is late is given up, and its session kept",
    Plan(jobs=_JOBS),
    policy={"on_timeout": "detach", "on_disconnect": "wait"},
    session={"on_timeout": "detach", "on_disconnect": "wait"},
    deadline_ms=DEADLINE_MS,
)

SHARED = Setting(
    "shared",
    "jobs share nodes of two kinds",
    Plan(
        jobs=(_sharing(0, 3, 100, 200), _sharing(0, 5, 60, 100), _sharing(7, 2, 20, 30)),
        groups=_SHARED_GROUPS,
    ),
)

SETTINGS: Mapping[str, Setting] = {
    setting.name: setting
    for setting in (*(PLAIN, FULL, REQUEUE, SLOW, REASK, BRITTLE, HASTY, DETACHED, SHARED),)
}
"""The first is the one for a hello without `scenario`."""


def write_scenarios(folder: Path) -> list[Path]:
    """Write all scenarios into a folder; return the paths of those in TOML."""
    paths = []
    for setting in SETTINGS.values():
        (folder / f"{setting.name}.swf").write_text(setting.as_swf(), encoding="utf-8")
        text = json.dumps(setting.as_json(), indent=2) + "\n"
        (folder / f"{setting.name}.json").write_text(text, encoding="utf-8")
        path = folder / f"{setting.name}.toml"
        path.write_text(setting.as_toml(), encoding="utf-8")
        paths.append(path)
    return paths
