"""What a policy sees when it is asked, and the hands with which it decides."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from parley_client.cluster import Cluster
from parley_client.errors import ClientError
from parley_client.job import Job, RunningJob, Shape
from parley_client.spans import Span, merged
from parley_protocol.digest import state_digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from parley_client.allocators import Allocator
    from parley_client.watching import Watcher
    from parley_protocol.messages import (
        DecisionDict,
        DecisionRequestBody,
        EventDict,
        JobDict,
        NewJobDict,
        OutcomeDict,
        StateDict,
        WelcomeBody,
    )


_MOST_SAID = 4096
"""Spellings of shapes that are kept to be found again."""


class Queue:
    """The pending jobs, by submission, then reading order.

    Looking at the head, adding and removing are O(1). Iterating goes over a copy, so that jobs
    may be started meanwhile.
    """

    def __init__(self) -> None:
        self._jobs: OrderedDict[int, Job] = OrderedDict()

    @property
    def head(self) -> Job | None:
        """The job that waits longest, or None."""
        return self.first()

    def first(self) -> Job | None:
        """Return the head; for where it is asked for so often that a property is too slow."""
        return next(iter(self._jobs.values()), None)

    def get(self, number: int) -> Job | None:
        """Return the pending job of this number, or None."""
        return self._jobs.get(number)

    def __iter__(self) -> Iterator[Job]:
        return iter(list(self._jobs.values()))

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, job: object) -> bool:
        return isinstance(job, Job) and self._jobs.get(job.number) is job

    def _add(self, job: Job) -> None:
        self._jobs[job.number] = job

    def _remove(self, job: Job) -> None:
        del self._jobs[job.number]

    def _put_back(self, job: Job) -> None:
        """Return a job to its place after the server refused what was decided about it."""
        self._jobs[job.number] = job
        ordered = sorted(self._jobs.values(), key=lambda job: (job.submit_us, job.number))
        self._jobs = OrderedDict((job.number, job) for job in ordered)


@dataclass(slots=True)
class _Sent:
    """A decision on its way; what it takes to undo it, and to do it again.

    Attributes:
        spans: Where a start put its job.
        timer: The timer that is set or cancelled, for the instant *at_us*.
    """

    kind: str
    job: Job | None = None
    spans: tuple[Span, ...] = ()
    timer: int = 0
    at_us: int = 0


class View:
    """The state of the simulation as the dispatcher knows it.

    A decision takes effect here at once, so that the next one sees it; should the server refuse
    it, it is undone before the next request is shown.

    Attributes:
        now_us: The present instant, microseconds since time 0.
        queue: The pending jobs, without those that are held.
        held: The held jobs by number.
        running: The running jobs by number, in the order of their start.
        cluster: The nodes and what is free on them.
        exhausted: The workload holds no further job.
        timers: Instants of the timers that wait, by their number.
        fired: Timers that fired since the last request.
        ended: Numbers of the jobs that ended since the last request, be it to be requeued.
        changed: Whether nodes went down or came back since the last request.
        rejected: What the server refused of the last decisions.
        seed: For random choices, given by the scenario.
        latency_us: How long decisions take to take effect, simulated; 0 where that is not fixed.
    """

    def __init__(self, welcome: WelcomeBody, allocator: Allocator) -> None:
        self.now_us = 0
        self.queue = Queue()
        self.held: dict[int, Job] = {}
        self.running: dict[int, RunningJob] = {}
        self.exhausted = False
        self.timers: dict[int, int] = {}
        self.changed = False
        self.fired: list[int] = []
        self.ended: list[int] = []
        self.rejected: list[OutcomeDict] = []
        self.seed = welcome["seed"]
        self.latency_us = welcome["policy"].get("latency_us") or 0
        self._groups = [
            (group["last"] - group["first"] + 1, group["capacity"])
            for group in welcome["platform"]["groups"]
        ]
        self.cluster = Cluster(self._groups)
        self._allocator = allocator
        self._placed = getattr(allocator, "placed", None)
        self._watchers: list[Watcher] = []
        self._shapes: dict[tuple[Any, ...], Shape] = {}
        self._as_said: dict[tuple[Any, ...], Shape] = {}
        self._decisions: list[DecisionDict] = []
        self._sent: list[tuple[str, Job | None, tuple[Span, ...], int, int]] = []
        self._timer = 0

    # ------------------------------------------------------------------ deciding

    def fits(self, job: Job) -> bool:
        """Whether the allocator has a place for the job now; nothing changes."""
        return self._allocator.allocate(job, self.cluster) is not None

    def place(self, job: Job) -> tuple[Span, ...] | None:
        """Return where the allocator would put the job now, or None; nothing changes."""
        spans = self._allocator.allocate(job, self.cluster)
        return None if spans is None else merged(spans)

    @property
    def fits_by_count(self) -> bool:
        """Whether the allocator finds a place wherever enough chunks fit."""
        return bool(getattr(self._allocator, "fits_by_count", False))

    def watch(self, watcher: Watcher) -> None:
        """Tell somebody of every job that joins or leaves the queue or the nodes, at once."""
        self._watchers.append(watcher)

    def start(self, job: Job, spans: Sequence[Span] | None = None) -> bool:
        """Start a pending job now, where the allocator puts it or on *spans*.

        Returns:
            Whether it was started; if not, nothing has changed.

        Raises:
            ClientError: The job is not pending.
        """
        number = job.number
        if self.queue.get(number) is not job:
            self._require_pending(job)
        if spans is None:
            spans = self._allocator.allocate(job, self.cluster)
            if spans is None:
                return False
        placed = merged(spans)
        self._run(job, placed, self.now_us)
        if self._placed is not None:
            self._placed(job, placed)
        decisions = self._decisions
        decisions.append(
            {"id": len(decisions), "kind": "start", "job": number, "allocation": [list(placed)]}
        )
        self._sent.append(("start", job, placed, 0, 0))
        return True

    def reject(self, job: Job, reason: str | None = None) -> None:
        """Remove a pending job for good.

        Raises:
            ClientError: The job is not pending.
        """
        number = job.number
        if self.queue.get(number) is not job:
            self._require_pending(job)
        self._take_from_queue(job)
        decisions = self._decisions
        decisions.append({"id": len(decisions), "kind": "reject", "job": number, "reason": reason})
        self._sent.append(("reject", job, (), 0, 0))

    def kill(self, job: Job) -> None:
        """End a running job at this instant; its nodes are free when its end is told."""
        self._decide({"id": len(self._decisions), "kind": "kill", "job": job.number}, job)

    def requeue(self, job: Job) -> None:
        """End a running job at this instant; it is pending again when that is told."""
        self._decide({"id": len(self._decisions), "kind": "requeue", "job": job.number}, job)

    def hold(self, job: Job, reason: str | None = None) -> None:
        """Take a pending job out of the queue until it is released.

        Raises:
            ClientError: The job is not pending.
        """
        self._require_pending(job)
        self._take_from_queue(job)
        self.held[job.number] = job
        self._decide(
            {"id": len(self._decisions), "kind": "hold", "job": job.number, "reason": reason}, job
        )

    def release(self, job: Job) -> None:
        """Put a held job back in its place in the queue.

        Raises:
            ClientError: The job is not held.
        """
        if self.held.pop(job.number, None) is None:
            raise ClientError(f"job {job.number} ({job.name}) is not held")
        self._return(job)
        self._decide({"id": len(self._decisions), "kind": "release", "job": job.number}, job)

    def wake(self, at_us: int) -> int:
        """Ask to be asked at an instant after now; return the timer's number."""
        self._timer += 1
        self.timers[self._timer] = at_us
        self._decide(
            {"id": len(self._decisions), "kind": "wake", "timer": self._timer, "at_us": at_us},
            timer=self._timer,
            at_us=at_us,
        )
        return self._timer

    def cancel(self, timer: int) -> None:
        """Give up a timer that waits.

        Raises:
            ClientError: It does not.
        """
        at_us = self.timers.pop(timer, None)
        if at_us is None:
            raise ClientError(f"no timer {timer} waits")
        self._decide(
            {"id": len(self._decisions), "kind": "wake.cancel", "timer": timer},
            timer=timer,
            at_us=at_us,
        )

    def submit(self, job: NewJobDict, *, at_us: int | None = None) -> None:
        """Bring in a job, now or at an instant to come; it is told like any other.

        The policy must have an attribute `submits = True`, and the scenario must allow it.
        """
        self._decide({"id": len(self._decisions), "kind": "submit", "job": job, "at_us": at_us})

    def stop(self, reason: str | None = None) -> None:
        """End the whole run here."""
        self._decide({"id": len(self._decisions), "kind": "stop", "reason": reason})

    def annotate(
        self, job: Job, *, expected_start_us: int | None = None, reason: str | None = None
    ) -> None:
        """Note when a pending job is expected to start, for `jobs.csv`, or why it waits.

        The reason is for who reads the messages, as `--trace` shows them.
        """
        self._decide(
            {
                "id": len(self._decisions),
                "kind": "annotate",
                "job": job.number,
                "expected_start_us": expected_start_us,
                "reason": reason,
            }
        )

    def _require_pending(self, job: Job) -> None:
        if job not in self.queue:
            raise ClientError(f"job {job.number} ({job.name}) is not pending")

    def _decide(
        self,
        decision: DecisionDict,
        job: Job | None = None,
        *,
        spans: tuple[Span, ...] = (),
        timer: int = 0,
        at_us: int = 0,
    ) -> None:
        self._decisions.append(decision)
        # Few are ever looked at again: what is made of each here is for those.
        self._sent.append((decision["kind"], job, spans, timer, at_us))

    # ------------------------------------------------------------------ following the server

    def update(self, request: DecisionRequestBody) -> None:
        """Take in a request: outcomes of the last decisions, then events, in order."""
        self.now_us = request["now_us"]
        if self.fired:
            self.fired.clear()
        if self.ended:
            self.ended.clear()
        if self.rejected:
            self.rejected.clear()
        self.changed = False
        outcomes, events = request["outcomes"], request["events"]
        follow = self._follow
        state = request.get("state")
        if state is not None:
            self.rejected += (o for o in outcomes if o["status"] != "applied")
            self._load(state)
            for event in events:
                follow(event, told=True)
        else:
            for outcome in outcomes:
                # Nearly always there is nothing more to say: an id, and that it was applied.
                if len(outcome) > 2 or outcome["status"] != "applied":
                    self._follow_with(outcomes, events)
                    break
            else:
                for event in events:
                    follow(event, told=False)
        self._sent.clear()
        digest = request.get("state_digest")
        if digest is not None and digest != self.digest():
            raise ClientError(
                f"the mirror has drifted: at {self.now_us} us the server's state is another "
                f"(digest {digest[:12]}..., here {self.digest()[:12]}...)"
            )

    def _follow_with(self, outcomes: Sequence[OutcomeDict], events: Sequence[EventDict]) -> None:
        """Take in outcomes that say more than that all went well, and the events behind them."""
        if any("at_us" in outcome for outcome in outcomes):
            self._catch_up(outcomes, events)
            return
        # Backwards: a decision about a job may stand on one before it.
        for outcome in reversed(outcomes):
            if outcome["status"] != "applied":
                self._undo(self._sent_as(outcome), str(outcome.get("code")))
                self.rejected.insert(0, outcome)
        for event in events:
            self._follow(event, told=False)

    def digest(self) -> str:
        """Return the digest of the state as it is known here; O(jobs + nodes)."""
        return state_digest(
            now_us=self.now_us,
            pending=[*self.held, *(job.number for job in self.queue)],
            held=self.held,
            running=(
                (number, running.start_us, (running.spans,))
                for number, running in self.running.items()
            ),
            free=self.cluster.free(),
            down=self.cluster.down(),
            timers=self.timers,
        )

    def take_decisions(self) -> list[DecisionDict]:
        """Hand over what was decided since the last call."""
        decisions, self._decisions = self._decisions, []
        return decisions

    def _follow(self, event: Any, *, told: bool) -> None:
        """Take in an `EventDict`; if a full state came with it, only what that does not say."""
        # Comparing the tag costs a third of matching the dictionary.
        kind = event["kind"]
        if kind == "job.submitted":
            if not told:
                job = self._job(event["job"])
                self.queue._add(job)
                for watcher in self._watchers:
                    watcher.joined(job)
        elif kind == "job.ended":
            self.ended.append(event["job"])
            if not told:
                job = self._stop(event["job"])
                if event["status"] == "requeued":
                    self._return(job)
        elif kind == "job.started":
            if not told:
                spans = merged(event["allocation"][0])
                self._started_elsewhere(event["job"], spans, event["at_us"])
        elif kind == "timer.fired":
            self.fired.append(event["timer"])
            self.timers.pop(event["timer"], None)
        elif kind in {"node.down", "node.up"}:
            self._on_node_change(event, told=told)
        elif kind == "workload.exhausted":
            self.exhausted = True

    def _started_elsewhere(self, number: int, spans: tuple[Span, ...], at_us: int) -> None:
        job = self.queue.get(number)
        if job is None:
            raise ClientError(f"the server started job {number}, which is not pending here")
        self._run(job, spans, at_us)

    def _run(self, job: Job, spans: tuple[Span, ...], at_us: int) -> None:
        """Move a job from the queue to its nodes."""
        self.cluster.take(job.shape, spans)
        self.queue._remove(job)
        running = self.running[job.number] = RunningJob(job, at_us, spans)
        for watcher in self._watchers:
            watcher.started(running)

    def _on_node_change(self, event: Any, *, told: bool) -> None:
        self.changed = True
        if told:
            return
        for first, last in event["nodes"]:
            if event["kind"] == "node.down":
                self.cluster.go_down(first, last)
            else:
                self.cluster.come_up(first, last)

    def _stop(self, number: int) -> Job:
        """Take a job off its nodes."""
        running = self.running.pop(number)
        self.cluster.release(running.job.shape, running.spans)
        for watcher in self._watchers:
            watcher.ended(running)
        return running.job

    def _take_from_queue(self, job: Job) -> None:
        """Let a job be pending no more, or not to be started."""
        self.queue._remove(job)
        for watcher in self._watchers:
            watcher.left(job)

    def _return(self, job: Job) -> None:
        """Put a job that had left the queue back in its place."""
        self.queue._put_back(job)
        for watcher in self._watchers:
            watcher.joined(job)

    def _sent_as(self, outcome: OutcomeDict) -> _Sent:
        """Return the decision that an outcome is of."""
        if outcome["id"] >= len(self._sent):
            raise ClientError(f"the server tells of decision {outcome['id']}, which was not sent")
        return _Sent(*self._sent[outcome["id"]])

    def _catch_up(self, outcomes: Sequence[OutcomeDict], events: Sequence[Any]) -> None:
        """Take in what happened while decisions were on their way, and then they.

        Until then they hold nothing: a node may go down and come back meanwhile, and the start on
        it take effect none the less. They do so behind the events of their instant, save for the
        ends that they bring themselves.
        """
        for sent in reversed(self._sent):
            self._undo(_Sent(*sent), "")
        effect = max(outcome.get("at_us") or 0 for outcome in outcomes)
        own = {job.number for kind, job, *_ in self._sent if kind == "start" and job}
        settled = False
        for event in events:
            ends_own = event["kind"] == "job.ended" and event["job"] in own
            if not settled and (event["at_us"] > effect or ends_own):
                settled = True
                self._settle(outcomes)
            self._follow(event, told=False)
        if not settled:
            self._settle(outcomes)

    def _settle(self, outcomes: Sequence[OutcomeDict]) -> None:
        for outcome in outcomes:
            if outcome["status"] == "applied":
                self._redo(self._sent_as(outcome), outcome.get("at_us") or self.now_us)
            else:
                self.rejected.append(outcome)

    def _redo(self, sent: _Sent, at_us: int) -> None:
        """Let a decision that was undone take effect at an instant."""
        match sent:
            case _Sent("start", Job() as job, spans):
                self._run(job, spans, at_us)
            case _Sent("reject", Job() as job):
                self._take_from_queue(job)
            case _Sent("hold", Job() as job):
                self._take_from_queue(job)
                self.held[job.number] = job
            case _Sent("release", Job() as job):
                del self.held[job.number]
                self._return(job)
            case _Sent("wake"):
                self.timers[sent.timer] = sent.at_us
            case _Sent("wake.cancel"):
                self.timers.pop(sent.timer, None)

    def _undo(self, sent: _Sent, code: str) -> None:
        """Take a decision back that was refused with a code, or has not taken effect yet."""
        gone = code in {"job.unknown", "job.not_pending"}
        match sent:
            case _Sent("start", Job() as job):
                self._stop(job.number)
            case _Sent("hold", Job() as job):
                del self.held[job.number]
            case _Sent("reject", Job() as job):
                pass
            case _Sent("release", Job() as job):
                self._take_from_queue(job)
                if not gone:
                    self.held[job.number] = job
                return
            case _Sent("wake"):
                self.timers.pop(sent.timer, None)
                return
            case _Sent("wake.cancel"):
                if code != "timer.unknown":
                    self.timers[sent.timer] = sent.at_us
                return
            case _:
                return
        if not gone:
            self._return(job)

    def _load(self, state: StateDict) -> None:
        """Begin anew from a full state."""
        self.queue = Queue()
        self.held = {}
        holds = set(state["held"])
        for wire in state["pending"]:
            if wire["job"] in holds:
                self.held[wire["job"]] = self._job(wire)
            else:
                self.queue._add(self._job(wire))
        self.cluster = Cluster(self._groups)
        self.running = {}
        for entry in state["running"]:
            job = self._job(entry["job"])
            spans = merged(entry["allocation"][0])
            self.cluster.take(job.shape, spans)
            self.running[job.number] = RunningJob(job, entry["start_us"], spans)
        for first, last, _, service in state["nodes"]:
            if service == "down":
                self.cluster.go_down(first, last)
        self.timers = {timer["timer"]: timer["at_us"] for timer in state["timers"]}
        self._timer = max(self.timers, default=self._timer)
        self.exhausted = state["exhausted"]
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher.reloaded()

    def _job(self, wire: JobDict) -> Job:
        groups = wire["request"]
        if len(groups) != 1:
            raise ClientError(
                f"job {wire['job']} asks for {len(groups)} groups of chunks; this client knows one"
            )
        group = groups[0]
        said = (group["exclusive"], *group["per_chunk"].items())
        return Job(
            wire["job"],
            wire["name"],
            wire["submit_us"],
            wire.get("walltime_us"),
            group["chunks"],
            self._as_said.get(said) or self._shape(said),
            wire.get("user"),
            wire.get("group"),
            wire.get("queue"),
            wire.get("partition"),
            wire.get("attributes"),
        )

    def _shape(self, said: tuple[Any, ...]) -> Shape:
        """Return the one object of a shape, so that comparing shapes is comparing pointers.

        Args:
            said: Whether it is exclusive, and what it asks for, as a message has it: in any order.
        """
        exclusive, *per_chunk = said
        key = (exclusive, *sorted(per_chunk))
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = Shape(key[1:], exclusive)
        if len(self._as_said) >= _MOST_SAID:
            self._as_said.clear()
        self._as_said[said] = shape
        return shape
