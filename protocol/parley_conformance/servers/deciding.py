"""What becomes of decisions: placed, refused, killed, held, timed, submitted, stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley_conformance.case import Case, cases_in
from parley_conformance.machine import DYNAMIC, SECOND
from parley_conformance.servers.hall import Caller, Hall, kinds, submitted
from parley_conformance.servers.probe import applied, probe, refused, rejected, require
from parley_conformance.servers.settings import BRITTLE, FULL, PLAIN, REASK, REQUEUE
from parley_conformance.stage import NotForThis

if TYPE_CHECKING:
    from parley_conformance.dialogue import Line

SNAPSHOT = {"capabilities": {"state": "snapshot"}}


def _at_jobs(hall: Hall, **hello: Any) -> tuple[Caller, Line]:
    """Return a connection, and the request that tells jobs 0 and 1 at time 0."""
    caller, request = hall.open(**hello)
    jobs = caller.next_request(request)
    require(submitted(jobs.body)[:2] == [0, 1], "jobs 0 and 1 are due at time 0", jobs)
    return caller, jobs


def start(job: int, *spans: list[int]) -> dict[str, Any]:
    """Return a decision to start a job on these spans, or wherever it fits."""
    placed = {"allocation": [list(spans)]} if spans else {}
    return {"kind": "start", "job": job, **placed}


# ---------------------------------------------------------------------- start

_WRONG: tuple[tuple[str, str, list[list[list[int]]], str], ...] = (
    ("ALLOC-GROUPS", "alloc.groups", [], "one list of spans for each group of the request"),
    ("ALLOC-SPAN", "alloc.span", [[[1, 0, 1]]], "a span that ends before it begins"),
    ("ALLOC-NODE", "node.unknown", [[[3, 4, 1]]], "node 4 of a machine of four"),
    ("ALLOC-ORDER", "alloc.order", [[[2, 2, 1], [1, 1, 1]]], "spans that do not ascend"),
    ("ALLOC-EXCLUSIVE", "alloc.exclusive", [[[0, 0, 2]]], "two exclusive chunks on one node"),
    ("ALLOC-FEW", "alloc.too_few", [[[0, 0, 1]]], "one chunk of two"),
    ("ALLOC-MANY", "alloc.too_many", [[[0, 2, 1]]], "three chunks of two"),
)


def _wrong_allocation(
    identity: str, code: str, allocation: list[list[list[int]]], what: str
) -> Case:
    def play(hall: Hall) -> None:
        caller, jobs = _at_jobs(hall)
        decision = {"kind": "start", "job": 0, "allocation": allocation}
        answer = caller.next_request(jobs, decision, start(1))
        rejected(answer, code)
        applied(answer, 1)

    play.__doc__ = f"a job of two exclusive nodes is started with {what}"
    return probe(
        identity,
        f"A start with {what} is refused as `{code}`.",
        "R-START-4",
        "R-DEC-3",
        "R-DEC-4",
        right="The first code of R-START-4 that applies; the decision beside it is applied.",
        profile="alloc",
    )(play)


groups, span, node, order, exclusive, few, many = (_wrong_allocation(*wrong) for wrong in _WRONG)


@probe(
    "ALLOC-FIRST-CODE",
    "Of several codes that apply, the outcome carries the first.",
    "R-START-4",
    right="Spans are looked at one by one, before chunks are counted, before nodes.",
    profile="alloc",
)
def alloc_first_code(hall: Hall) -> None:
    """Allocations that are wrong in two ways."""
    caller, jobs = _at_jobs(hall)
    answer = caller.next_request(
        jobs,
        start(0, [2, 2, 1], [1, 1, 0]),
        start(0, [0, 0, 2], [9, 9, 1]),
        start(1),
        start(0, [0, 2, 1]),
    )
    rejected(answer, "alloc.span", 0)
    rejected(answer, "alloc.exclusive", 1)
    rejected(answer, "alloc.too_many", 3)


@probe(
    "ALLOC-BUSY",
    "A start on a node that is taken is refused as `node.busy`.",
    "R-START-4",
    "R-START-5",
    right="A node never holds more than its capacity.",
    profile="alloc",
)
def alloc_busy(hall: Hall) -> None:
    """Two jobs of two nodes each are put on three nodes."""
    caller, jobs = _at_jobs(hall)
    answer = caller.next_request(jobs, start(0, [0, 1, 1]), start(1, [1, 2, 1]))
    applied(answer, 0)
    rejected(answer, "node.busy", 1)


@probe(
    "ALLOC-EXACT",
    "A job is started on exactly the nodes that the allocation names.",
    "R-START-1",
    right="The state shows them.",
    profile="alloc",
)
def alloc_exact(hall: Hall) -> None:
    """A job is put on nodes 1 and 3."""
    caller, jobs = _at_jobs(hall)
    applied(caller.next_request(jobs, start(0, [1, 1, 1], [3, 3, 1])))
    running = caller.state()["running"]
    given = running[0]["allocation"] if running else None
    require(given == [[[1, 1, 1], [3, 3, 1]]], f"the allocation is {given}")


@probe(
    "ALLOC-UNMERGED",
    "Spans that are ascending and disjoint but not merged are accepted.",
    "R-CONV-9",
    right="`[0, 0, 1], [1, 1, 1]` is `[0, 1, 1]`, and shown so.",
    profile="alloc",
)
def alloc_unmerged(hall: Hall) -> None:
    """A job is put on nodes 0 and 1, in two spans."""
    caller, jobs = _at_jobs(hall)
    applied(caller.next_request(jobs, start(0, [0, 0, 1], [1, 1, 1])))


@probe(
    "START-NO-FIT",
    "A start without `allocation` that does not fit now is refused as `alloc.no_fit`.",
    "R-START-3",
    right="The job stays pending.",
)
def start_no_fit(hall: Hall) -> None:
    """A job of four nodes is started while others hold all of them."""
    caller, jobs = _at_jobs(hall)
    following = caller.next_request(jobs, start(0), start(1))
    answer = caller.next_request(following, start(2))
    rejected(answer, "alloc.no_fit")
    pending = [job["job"] for job in caller.state()["pending"]]
    require(2 in pending, f"pending is {pending}", answer)


# ---------------------------------------------------------------------- order, codes, effect


@probe(
    "DEC-ORDER",
    "The decisions of a reply are applied in their order.",
    "R-DEC-1",
    right="Each to the state that the ones before have left.",
)
def dec_order(hall: Hall) -> None:
    """A job is held, started, released, started."""
    caller, jobs = _at_jobs(hall)
    answer = caller.next_request(
        jobs, {"kind": "hold", "job": 0}, start(0), {"kind": "release", "job": 0}, start(0)
    )
    told = [one["status"] for one in answer.body["outcomes"]]
    require(
        told == ["applied", "rejected", "applied", "applied"], f"the outcomes are {told}", answer
    )


@probe(
    "DEC-NO-TRACE",
    "A rejected decision changes nothing but the outcomes.",
    "R-DEC-3",
    "R-DEC-4",
    right="`state_version` does not count it, the state does not show it.",
)
def dec_no_trace(hall: Hall) -> None:
    """All decisions of a reply are refused; the state is asked for before and after."""
    caller, jobs = _at_jobs(hall)
    before = caller.state()
    answer = caller.next_request(jobs, start(0, [0, 0, 1]), {"kind": "kill", "job": 1})
    rejected(answer, "alloc.too_few", 0)
    rejected(answer, "job.not_running", 1)
    after = caller.state()
    require(after["running"] == before["running"], "something runs", answer)
    told = [job["job"] for job in after["pending"]][:2]
    require(told == [0, 1], f"pending begins with {told}", answer)


@probe(
    "DEC-JOBS",
    "A decision about a job that is not what it is for is refused with the cause.",
    "R-DEC-7",
    right="`job.unknown`, `job.not_pending`, `job.not_running`.",
)
def dec_jobs(hall: Hall) -> None:
    """Decisions about jobs that are not there, run already, do not run."""
    caller, jobs = _at_jobs(hall)
    answer = caller.next_request(
        jobs,
        start(0),
        start(0),
        start(2),
        start(77),
        {"kind": "reject", "job": 0},
        {"kind": "kill", "job": 1},
        {"kind": "requeue", "job": 77},
        {"kind": "annotate", "job": 0},
    )
    due = ["job.not_pending", "job.unknown", "job.unknown", "job.not_pending"]
    due += ["job.not_running", "job.unknown", "job.not_pending"]
    for index, code in enumerate(due, 1):
        rejected(answer, code, index)


@probe(
    "DEC-REJECT",
    "A rejected job leaves the queue for good, without an event.",
    "R-DEC-8",
    right="It is neither pending nor told of again, and counted as rejected.",
)
def dec_reject(hall: Hall) -> None:
    """A job is rejected, and the run played on."""
    caller, jobs = _at_jobs(hall)
    answer = caller.next_request(jobs, {"kind": "reject", "job": 0, "reason": "no"}, start(0))
    applied(answer)
    rejected(answer, "job.not_pending", 1)
    told = [event for event in answer.body["events"] if event.get("job") == 0]
    require(not told, f"{told} is told", answer)
    end = caller.finish(answer)
    count = end.body["stats"]["rejected"]
    require(count == 2, f"{count} jobs are counted as rejected, not 2", end)


@probe(
    "DEC-ANNOTATE",
    "`annotate` has no effect on what is simulated.",
    "R-DEC-13",
    right="The job may be started before the instant that was noted.",
)
def dec_annotate(hall: Hall) -> None:
    """A job is annotated and started in one reply."""
    caller, jobs = _at_jobs(hall)
    note = {"kind": "annotate", "job": 0, "expected_start_us": 9_000 * SECOND, "reason": "x"}
    answer = caller.next_request(jobs, note, start(0))
    applied(answer, 0)
    applied(answer, 1)
    require(answer.body["now_us"] == 10 * SECOND, "the run has noticed", answer)


# ---------------------------------------------------------------------- kill, requeue


def _running(hall: Hall, **hello: Any) -> tuple[Caller, Line]:
    """Return a connection, and a request at 10 s at which jobs 0 and 1 run."""
    caller, jobs = _at_jobs(hall, **hello)
    following = caller.next_request(jobs, start(0, [0, 1, 1]), start(1, [2, 3, 1]))
    require(following.body["now_us"] == 10 * SECOND, "a request at 10 s is due", following)
    return caller, following


@probe(
    "KILL",
    "A killed job ends at the instant of the decision.",
    "R-DEC-9",
    "R-EVT-5",
    right="`job.ended` with `killed` in the next request, of the same `now_us`.",
    profile="kill",
)
def kill(hall: Hall) -> None:
    """A running job is killed."""
    caller, request = _running(hall)
    answer = caller.next_request(request, {"kind": "kill", "job": 0})
    applied(answer)
    _ended(answer, 0, "killed")


def _ended(answer: Line, job: int, status: str) -> None:
    told = [
        (event["job"], event["status"], event["at_us"])
        for event in answer.body["events"]
        if event["kind"] == "job.ended"
    ]
    due = (job, status, 10 * SECOND)
    require(due in told, f"the ends are {told}, which lack {due}", answer)
    now = answer.body["now_us"]
    require(now == 10 * SECOND, f"now_us is {now}", answer)


@probe(
    "KILL-NODES-STAY",
    "The nodes of a job that is killed stay taken for the other decisions of the reply.",
    "R-DEC-10",
    right="They are free from `job.ended` on.",
    profile="kill",
)
def kill_nodes_stay(hall: Hall) -> None:
    """A job is killed, and in the same reply another started on its nodes."""
    caller, request = _running(hall)
    answer = caller.next_request(request, {"kind": "kill", "job": 0}, start(3, [0, 0, 1]))
    applied(answer, 0)
    rejected(answer, "node.busy", 1)


@probe(
    "KILL-TWICE",
    "A job that is ending already is not running for a second `kill`.",
    "R-DEC-7",
    right="`job.not_running`.",
    profile="kill",
)
def kill_twice(hall: Hall) -> None:
    """A job is killed twice in one reply."""
    caller, request = _running(hall)
    answer = caller.next_request(request, {"kind": "kill", "job": 0}, {"kind": "kill", "job": 0})
    applied(answer, 0)
    rejected(answer, "job.not_running", 1)


@probe(
    "REQUEUE",
    "A requeued job ends now and is pending again, in its old place.",
    "R-DEC-11",
    right="`job.ended` with `requeued`; before the jobs that were submitted later.",
    profile="kill",
)
def requeue(hall: Hall) -> None:
    """A running job is requeued while others are pending."""
    caller, request = _running(hall)
    answer = caller.next_request(request, {"kind": "requeue", "job": 1})
    applied(answer)
    _ended(answer, 1, "requeued")
    pending = [job["job"] for job in caller.state()["pending"]]
    require(pending[:2] == [1, 2], f"pending is {pending}", answer)


@probe(
    "REQUEUE-AGAIN",
    "A requeued job that is started again runs from its beginning.",
    "R-DEC-12",
    right="Its whole runtime, from the new start on.",
    profile="kill",
)
def requeue_again(hall: Hall) -> None:
    """A job is requeued at 10 s and started again at once."""
    caller, request = _running(hall)
    answer = caller.next_request(request, {"kind": "requeue", "job": 1})
    line = caller.next_request(answer, start(1, [2, 3, 1]))

    def is_over(body: dict[str, Any]) -> bool:
        return any(
            event.get("job") == 1 and event["kind"] == "job.ended" for event in body["events"]
        )

    line = caller.until(line, is_over)
    due = (10 + PLAIN.plan.jobs[1].runtime) * SECOND
    given = next(event["at_us"] for event in line.body["events"] if event.get("job") == 1)
    require(given == due, f"the job ends at {given}, not at {due}", line)


# ---------------------------------------------------------------------- hold, timers


@probe(
    "HOLD",
    "A held job stays pending, cannot be started, and takes `annotate` and `reject`.",
    "R-HOLD-1",
    "R-START-7",
    right="`start` is refused as `job.held`.",
)
def hold(hall: Hall) -> None:
    """A job is held, started, annotated and rejected."""
    caller, jobs = _at_jobs(hall)
    answer = caller.next_request(
        jobs, {"kind": "hold", "job": 0}, start(0), {"kind": "annotate", "job": 0}
    )
    applied(answer, 0)
    rejected(answer, "job.held", 1)
    applied(answer, 2)
    state = caller.state()
    told = [job["job"] for job in state["pending"]], state["held"]
    require(0 in told[0] and told[1] == [0], f"pending and held are {told}", answer)
    applied(caller.next_request(answer, {"kind": "reject", "job": 0}))


@probe(
    "HOLD-TWICE",
    "What is held cannot be held again, nor what is not be released.",
    "R-HOLD-2",
    right="`job.held` and `job.not_held`.",
)
def hold_twice(hall: Hall) -> None:
    """A job is held twice, and another released."""
    caller, jobs = _at_jobs(hall)
    answer = caller.next_request(
        jobs,
        {"kind": "hold", "job": 0},
        {"kind": "hold", "job": 0},
        {"kind": "release", "job": 1},
    )
    rejected(answer, "job.held", 1)
    rejected(answer, "job.not_held", 2)


def wake(timer: int, seconds: int) -> dict[str, Any]:
    """Return a decision to set a timer."""
    return {"kind": "wake", "timer": timer, "at_us": seconds * SECOND}


@probe(
    "WAKE",
    "A timer fires at its instant, and is a reason to ask whatever `ask` says.",
    "R-WAKE-2",
    right="`timer.fired` with its number, in a request of that `now_us`.",
    profile="timer",
)
def wake_fires(hall: Hall) -> None:
    """A session that is asked only where something could start sets a timer for 4 s."""
    caller, request = hall.open(ask="actionable")
    line = caller.next_request(request, wake(9, 4))
    while line.body["now_us"] < 4 * SECOND:
        line = caller.next_request(line)
    now = line.body["now_us"]
    require(now == 4 * SECOND, f"the request after 4 s is of {now} us", line)
    told = [event.get("timer") for event in line.body["events"] if event["kind"] == "timer.fired"]
    require(told == [9], f"the timers are {told}", line)


@probe(
    "WAKE-WRONG",
    "A timer for now, or of a number that waits already, is refused.",
    "R-WAKE-1",
    right="`timer.past` and `timer.set`.",
    profile="timer",
)
def wake_wrong(hall: Hall) -> None:
    """Timers for now, for before, and twice under one number."""
    caller, jobs = _at_jobs(hall)
    answer = caller.next_request(jobs, wake(1, 0), wake(1, -5), wake(1, 4), wake(1, 5), wake(2, 4))
    rejected(answer, "timer.past", 0)
    rejected(answer, "timer.past", 1)
    applied(answer, 2)
    rejected(answer, "timer.set", 3)
    applied(answer, 4)
    told = [event.get("timer") for event in answer.body["events"] if event["kind"] == "timer.fired"]
    require(told == [1, 2], f"the timers are {told}", answer)


@probe(
    "WAKE-CANCEL",
    "`wake.cancel` gives up a waiting timer, and is refused if none waits.",
    "R-WAKE-3",
    right="`timer.unknown`.",
    profile="timer",
)
def wake_cancel(hall: Hall) -> None:
    """A timer is set, cancelled, cancelled again."""
    caller, jobs = _at_jobs(hall)
    cancel = {"kind": "wake.cancel", "timer": 5}
    answer = caller.next_request(jobs, wake(5, 4), cancel, cancel)
    applied(answer, 1)
    rejected(answer, "timer.unknown", 2)
    require("timer.fired" not in kinds(answer.body), "the timer fires", answer)
    require(not caller.state()["timers"], "the timer waits", answer)


# ---------------------------------------------------------------------- submit


def job_of(runtime: int = 5, chunks: int = 1, **more: Any) -> dict[str, Any]:
    """Return a job to submit; seconds."""
    group = {"chunks": chunks, "per_chunk": {"core": 1}, "exclusive": False}
    return {"runtime_us": runtime * SECOND, "request": [group], **more}


def submit(at: int | None = None, **job: Any) -> dict[str, Any]:
    """Return a decision to submit a job; seconds."""
    when = {} if at is None else {"at_us": at * SECOND}
    return {"kind": "submit", "job": job_of(**job), **when}


def _submitting(hall: Hall) -> tuple[Caller, Line]:
    caller, request = hall.open(capabilities={"submit": True})
    if not caller.granted.get("submit"):
        raise NotForThis("the server does not grant submit")
    return caller, caller.next_request(request)


@probe(
    "SUBMIT-NOT-GRANTED",
    "`submit` is refused in a session to which it was not granted.",
    "R-SUB-1",
    right="`decision.not_granted`.",
)
def submit_not_granted(hall: Hall) -> None:
    """A dispatcher that has not asked for it submits a job."""
    caller, jobs = _at_jobs(hall)
    rejected(caller.next_request(jobs, submit()), "decision.not_granted")


@probe(
    "SUBMIT-NUMBER",
    "Submitted jobs are numbered from 2^52, and told in the outcome.",
    "R-SUB-2",
    setting=FULL,
    right="4503599627370496, then one more for each.",
)
def submit_number(hall: Hall) -> None:
    """Two jobs are submitted."""
    caller, jobs = _submitting(hall)
    answer = caller.next_request(jobs, submit(), submit())
    told = [applied(answer, index).get("job") for index in (0, 1)]
    require(told == [DYNAMIC, DYNAMIC + 1], f"the numbers are {told}", answer)


@probe(
    "SUBMIT-NAME",
    "The name of a submitted job is `dyn!` and its name, or a count.",
    "R-SUB-3",
    setting=FULL,
    right="`dyn!probe`; without a name, the number of jobs submitted before: `dyn!1`.",
)
def submit_name(hall: Hall) -> None:
    """A job with a name and one without are submitted."""
    caller, jobs = _submitting(hall)
    answer = caller.next_request(jobs, submit(name="probe"), submit())
    told = [event["job"]["name"] for event in answer.body["events"] if "submit_us" in str(event)]
    require(told == ["dyn!probe", "dyn!1"], f"the names are {told}", answer)


@probe(
    "SUBMIT-TOLD",
    "A job that is submitted for now is told in the next request, one for later then.",
    "R-SUB-5",
    setting=FULL,
    right="`job.submitted` at its instant.",
)
def submit_told(hall: Hall) -> None:
    """A job is submitted for now and one for 4 s."""
    caller, jobs = _submitting(hall)
    answer = caller.next_request(jobs, submit(), submit(at=4))
    now, told = answer.body["now_us"], submitted(answer.body)
    require((now, told) == (0, [DYNAMIC]), f"{told} are submitted at {now}", answer)
    answer = caller.next_request(answer)
    now, told = answer.body["now_us"], submitted(answer.body)
    require((now, told) == (4 * SECOND, [DYNAMIC + 1]), f"{told} are submitted at {now}", answer)


@probe(
    "SUBMIT-WRONG",
    "A job that cannot be submitted is refused with the cause.",
    "R-SUB-4",
    setting=FULL,
    right="`job.name`, `job.past`, `job.never_fits`, `job.request`.",
)
def submit_wrong(hall: Hall) -> None:
    """Jobs of a name twice, for before now, too large, of two groups, of nothing."""
    caller, jobs = _submitting(hall)
    group = {"chunks": 1, "per_chunk": {"core": 1}, "exclusive": False}
    answer = caller.next_request(
        jobs,
        submit(name="a"),
        submit(name="a"),
        submit(at=-1),
        submit(chunks=5),
        submit(request=[group, group]),
        submit(request=[{**group, "per_chunk": {}}]),
    )
    codes = ("job.name", "job.past", "job.never_fits", "job.request", "job.request")
    for index, code in enumerate(codes, 1):
        rejected(answer, code, index)


@probe(
    "SUBMIT-EXHAUSTED",
    "Submitted jobs have no effect on `workload.exhausted`.",
    "R-SUB-6",
    setting=FULL,
    right="It comes behind the last submission of the workload, before that of a later job.",
)
def submit_exhausted(hall: Hall) -> None:
    """A job is submitted for long after the last one of the workload."""
    caller, jobs = _submitting(hall)
    line = caller.next_request(jobs, submit(at=9000))
    exhausted: list[int] = []
    for _ in range(60):
        exhausted += [
            event["at_us"] for event in line.body["events"] if event["kind"] == "workload.exhausted"
        ]
        if DYNAMIC in submitted(line.body):
            break
        line = caller.next_request(line)
    due = [max(job.submit for job in FULL.plan.jobs) * SECOND]
    require(exhausted == due, f"workload.exhausted came at {exhausted}, not {due}", line)


# ---------------------------------------------------------------------- stop, atomic


@probe(
    "STOP",
    "`stop` ends the run at its instant, with the outcomes of the reply.",
    "R-STOP-1",
    "R-STOP-2",
    right="`session.end` with reason `stopped`; decisions behind it are `run.stopped`.",
)
def stop(hall: Hall) -> None:
    """A reply starts a job, stops, and starts another."""
    caller, jobs = _at_jobs(hall)
    end = caller.expect(caller.reply(jobs, start(0), {"kind": "stop"}, start(1)), "session.end")
    reason, now = end.body["reason"], end.body["now_us"]
    require((reason, now) == ("stopped", 0), f"the run ends at {now} as {reason}", end)
    applied(end, 0)
    applied(end, 1)
    rejected(end, "run.stopped", 2)


@probe(
    "ATOMIC",
    "In an atomic session a reply is applied as a whole or not at all.",
    "R-ATOM-1",
    "R-ATOM-2",
    right="The first that fails has its own code, the others `decision.rolled_back`.",
)
def atomic(hall: Hall) -> None:
    """A reply of which the second decision is wrong, then one that is right."""
    caller = hall.call()
    welcome = caller.welcomed(capabilities={"decisions": "atomic"})
    if welcome.body["granted"]["decisions"] != "atomic":
        raise NotForThis("the server does not grant decisions: atomic")
    jobs = caller.next_request(caller.expect(caller.ready(), "decision.request"))
    answer = caller.next_request(jobs, start(0), start(1, [9, 9, 1]), wake(1, 4))
    rejected(answer, "decision.rolled_back", 0)
    rejected(answer, "node.unknown", 1)
    rejected(answer, "decision.rolled_back", 2)
    state = caller.state()
    require(not state["running"] and not state["timers"], "part of it was applied", answer)
    answer = caller.next_request(answer, start(0), start(1))
    applied(answer, 0)
    applied(answer, 1)


# ---------------------------------------------------------------------- refused decisions, stalls


@probe(
    "REASK",
    "With `on_reject: reask` a refused decision is asked about at once, so often at most.",
    "R-REJ-1",
    "R-TIME-5",
    setting=REASK,
    right="The same `now_us`, `attempt` one more, the outcomes, no events.",
)
def reask(hall: Hall) -> None:
    """A start is refused at one instant until the server goes on."""
    caller, jobs = _at_jobs(hall)
    hall.policy("on_reject", "reask")
    line = jobs
    for attempt in (2, 3):
        line = caller.next_request(line, start(0, [0, 0, 1]))
        rejected(line, "alloc.too_few")
        given = line.body["now_us"], line.body["attempt"], line.body["events"]
        require(given == (0, attempt, []), f"now_us, attempt and events are {given}", line)
    line = caller.next_request(line, start(0, [0, 0, 1]))
    now, count = line.body["now_us"], line.body["attempt"]
    require((now, count) == (10 * SECOND, 1), f"now_us is {now}, attempt {count}", line)


@probe(
    "REJECT-FAILS",
    "With `on_reject: fail` a refused decision ends the session.",
    "R-REJ-2",
    "R-ERR-6",
    setting=BRITTLE,
    right="A fatal `decision.refused`.",
)
def reject_fails(hall: Hall) -> None:
    """A start is refused."""
    hall.policy("on_reject", "fail")
    caller, jobs = _at_jobs(hall)
    refused(caller.reply(jobs, start(0, [0, 0, 1])), "decision.refused", fatal=True)


@probe(
    "STALLED",
    "A run in which nothing is to come ends as stalled, after one more request.",
    "R-ASK-5",
    "R-ASK-7",
    right="`session.end` with reason `stalled`.",
)
def stalled(hall: Hall) -> None:
    """A dispatcher decides nothing."""
    caller, line = hall.open()
    instants = []
    for _ in range(30):
        if line.kind != "decision.request":
            break
        instants.append(line.body["now_us"])
        line = caller.reply(line)
    require(line.kind == "session.end", f"a session.end is due, {line.kind} came", line)
    require(line.body["reason"] == "stalled", f"the reason is {line.body['reason']!r}", line)
    due = sorted({job.submit * SECOND for job in PLAIN.plan.jobs})
    told = sorted(set(instants))
    require(told == due, f"the instants are {told}, not {due}", line)


@probe(
    "STALLED-REFUSED",
    "Before a run stalls, a reply all of whose decisions are refused is asked about once more.",
    "R-ASK-6",
    right="Once: a second such reply ends the run.",
)
def stalled_refused(hall: Hall) -> None:
    """At the last instant all decisions are refused, twice."""
    caller, request = hall.open()
    last = max(job.submit for job in PLAIN.plan.jobs) * SECOND
    line = caller.until(request, lambda body: body["now_us"] == last)
    wrong = start(0, [0, 0, 1])
    line = caller.next_request(line, wrong)
    now = line.body["now_us"]
    require(now == last, f"now_us is {now}, not {last}", line)
    for _ in range(3):
        line = caller.reply(line, wrong)
        if line.kind == "session.end":
            break
    require(line.kind == "session.end", "the run goes on and on", line)
    require(line.body["reason"] == "stalled", f"the reason is {line.body['reason']!r}", line)


@probe(
    "NODE-REFUSED",
    "A start on a node that is out of service is refused as `node.down`.",
    "R-NODE-3",
    setting=REQUEUE,
    right="Nor does the server place anything there.",
    profile="nodes",
)
def node_refused(hall: Hall) -> None:
    """At 25 s nodes 0 and 1 fail; jobs are put there, and left to the server to place."""
    caller, request = hall.open()
    line = caller.until(request, lambda body: "node.down" in kinds(body))
    answer = caller.next_request(line, start(0, [0, 1, 1]), start(0))
    rejected(answer, "node.down", 0)
    given = applied(answer, 1).get("allocation")
    require(given == [[[2, 3, 1]]], f"the server places the job on {given}", answer)


@probe(
    "START-ZERO",
    "The end of a job without length comes at the instant of its start, in the next request.",
    "R-START-6",
    "R-TIME-4",
    right="The same `now_us`; the nodes are free again.",
)
def start_zero(hall: Hall) -> None:
    """A job whose runtime is zero is started."""
    caller, request = hall.open()
    line = caller.until(request, lambda body: 3 in submitted(body))
    answer = caller.next_request(line, start(3))
    _ended(answer, 3, "completed")
    require(not caller.state()["running"], "the job runs on", answer)


CASES = cases_in(globals())
