"""Deadlines, lost connections, sessions taken up again, and peers that mean no good."""

from __future__ import annotations

import contextlib
import math
import random
import socket as sockets
import time
from collections import Counter
from typing import Any

from parley_conformance import wire
from parley_conformance.case import cases_in
from parley_conformance.judging import canonical
from parley_conformance.machine import SECOND
from parley_conformance.servers.deciding import start
from parley_conformance.servers.hall import Caller, Follower, Hall
from parley_conformance.servers.probe import probe, refused, rejected, require
from parley_conformance.servers.settings import BRITTLE, DEADLINE_MS, DETACHED, FULL, HASTY
from parley_conformance.stage import Broken, NotForThis, Silent

LATE = DEADLINE_MS / 1000 + 0.4
"""Seconds after which a deadline is missed for certain."""

EARLY = DEADLINE_MS / 1000 * 0.5


def _resume(caller: Caller) -> dict[str, Any]:
    return {"session": caller.session["session"], "token": caller.token}


# ---------------------------------------------------------------------- deadlines


@probe(
    "DEAD-FAIL",
    "With `on_timeout: fail` a missed deadline ends the session.",
    "R-DEAD-3",
    "R-ERR-6",
    setting=BRITTLE,
    right="A fatal `deadline.missed`, asked for or not.",
    weight=3,
    timed=True,
)
def dead_fail(hall: Hall) -> None:
    """No reply comes until the deadline has passed."""
    hall.policy("on_timeout", "fail")
    caller, _ = hall.open()
    refused(caller.receive(LATE + 2), "deadline.missed", fatal=True)


@probe(
    "DEAD-NOT-EARLY",
    "A deadline is missed only when it has passed, counted from the last `progress.ack`.",
    "R-DEAD-1",
    "R-DEAD-2",
    setting=BRITTLE,
    right="Each `progress` sets the clock back.",
    weight=3,
    timed=True,
)
def dead_not_early(hall: Hall) -> None:
    """Two thirds of the deadline, `progress`, two thirds again, and the reply."""
    hall.policy("on_timeout", "fail")
    for attempt in range(5):
        if _keeps_the_deadline(hall, f"attempt {attempt + 1}"):
            return
    raise RuntimeError(f"this machine is too busy to keep deadlines of {DEADLINE_MS} ms")


def _keeps_the_deadline(hall: Hall, peer: str) -> bool:
    """Ask for more time twice and reply; whether the kit itself was in time."""
    caller = hall.call(peer)
    caller.welcomed()
    request = caller.expect(caller.ready(), "decision.request")
    given = request.body.get("deadline_ms")
    require(given == DEADLINE_MS, f"deadline_ms is {given}, not {DEADLINE_MS}", request)
    asked = time.monotonic()
    for _ in range(2):
        silent = caller.silent(EARLY * 1.3)
        if time.monotonic() - asked > DEADLINE_MS / 1000 * 0.9:
            return False
        require(silent, "a message came before the deadline")
        caller.send(caller.message("progress", {}))
        asked = time.monotonic()
        ack = caller.expect(caller.receive(), "progress.ack")
        require(ack.body["deadline_ms"] > 0, "no time is given", ack)
    caller.send(caller.reply_message(request, []))
    if time.monotonic() - asked > DEADLINE_MS / 1000 * 0.9:
        return False
    caller.expect(caller.receive(), "decision.request")
    return True


@probe(
    "LATE-EMPTY",
    "With `on_timeout: empty` a late reply is answered by the outstanding request.",
    "R-LATE-1",
    "R-LATE-3",
    "R-TIME-3",
    setting=HASTY,
    right="Its decisions come back as `decision.late`, and none is applied; no event is lost.",
    weight=3,
    timed=True,
)
def late_empty(hall: Hall) -> None:
    """The reply that starts two jobs comes too late."""
    hall.policy("on_timeout", "empty")
    caller, request = hall.open()
    jobs = caller.next_request(request)
    time.sleep(LATE)
    answer = caller.next_request(jobs, start(0), start(1))
    rejected(answer, "decision.late", 0)
    rejected(answer, "decision.late", 1)
    told = [event["kind"] for event in answer.body["events"]]
    require("job.submitted" in told, f"the events are {told}", answer)
    require(not caller.state()["running"], "a decision of the late reply was applied", answer)


@probe(
    "LATE-END",
    "A late reply is answered by `session.end` if the run has ended meanwhile.",
    "R-LATE-2",
    setting=HASTY,
    right="For `deadline_ms` after the end.",
    weight=3,
    timed=True,
)
def late_end(hall: Hall) -> None:
    """The last reply comes so late that the run has stalled before."""
    hall.policy("on_timeout", "empty")
    caller, request = hall.open()
    last = max(job.submit for job in HASTY.plan.jobs) * SECOND
    line = caller.until(request, lambda body: body["now_us"] == last)
    # The request that this reply is missed for, and at most one more, until the run stalls.
    time.sleep(DEADLINE_MS / 1000 * 1.5)
    answer = caller.reply(line)
    if answer.kind == "decision.request":
        time.sleep(DEADLINE_MS / 1000 * 1.5)
        answer = caller.reply(answer)
    require(answer.kind == "session.end", f"a session.end is due, {answer.kind} came", answer)


@probe(
    "DEAD-DETACH",
    "With `on_timeout: detach` a late dispatcher is given up, and its session can be resumed.",
    "R-DEAD-5",
    setting=DETACHED,
    right="What it says later is refused; a hello with `resume` is welcomed.",
    profile="resume",
    weight=3,
    timed=True,
)
def dead_detach(hall: Hall) -> None:
    """A dispatcher is late, and another takes the session up."""
    hall.policy("on_timeout", "detach")
    caller, request = hall.open()
    jobs = caller.next_request(request)
    time.sleep(LATE)
    caller.lenient = True
    caller.send(caller.reply_message(jobs, [start(0)]))
    answer = caller.receive()
    require(answer.kind == "error", f"an error is due, {answer.kind} came", answer)
    other = hall.call("other")
    welcome = other.expect(other.hello(resume=_resume(caller)), "welcome")
    require(welcome.body["resumed"] is True, "resumed is false", welcome)
    again = other.expect(other.ready(), "decision.request")
    require(not again.body["state"]["running"], "the late reply was applied", again)


# ---------------------------------------------------------------------- lost connections


@probe(
    "LOST-FAIL",
    "With `on_disconnect: fail` a session whose dispatcher is gone ends.",
    "R-LOST-1",
    right="It cannot be resumed.",
    profile="resume",
)
def lost_fail(hall: Hall) -> None:
    """A dispatcher vanishes, and another wants to take its session up."""
    hall.policy("on_disconnect", "fail")
    caller, _ = hall.open()
    resume = _resume(caller)
    caller.close()
    give_up = time.monotonic() + 4
    while True:
        other = hall.call("other")
        answer = other.hello(resume=resume)
        if answer.kind == "error" or time.monotonic() > give_up:
            break
        # It was not gone yet, as far as the server knew; now it has gone once more.
        other.close()
        time.sleep(0.2)
    require(answer.kind == "error", f"the session is resumed: {answer.kind}", answer)
    code = answer.body["code"]
    require(code in {"session.over", "session.token"}, f"the code is {code}", answer)


@probe(
    "LOST-WAIT",
    "With `on_disconnect: wait` a session is kept for `reconnect_ms`, and no longer.",
    "R-LOST-2",
    setting=BRITTLE,
    right="Then it is over.",
    profile="resume",
    weight=4,
    timed=True,
)
def lost_wait(hall: Hall) -> None:
    """A dispatcher vanishes and comes back in time; the second time it does not."""
    hall.policy("on_disconnect", "wait")
    caller, _ = hall.open()
    resume = _resume(caller)
    caller.close()
    other = hall.call("second")
    welcome = other.expect(other.hello(resume=resume), "welcome")
    patience = welcome.body["policy"]["reconnect_ms"] / 1000
    other.close()
    time.sleep(patience + 0.8)
    answer = hall.call("third").hello(resume=resume)
    refused(answer, "session.over", fatal=True)


# ---------------------------------------------------------------------- resuming


def _interrupted(hall: Hall, **hello: Any) -> tuple[Caller, Any]:
    """Return a connection that holds a session which can be resumed, and a request at 10 s."""
    hall.policy("on_disconnect", "wait")
    caller, request = hall.open(**hello)
    jobs = caller.next_request(request)
    return caller, caller.next_request(jobs, start(0, [0, 1, 1]))


def _taken_up(hall: Hall, caller: Caller, **hello: Any) -> tuple[Caller, Any]:
    """Return another connection that has resumed the session, and its welcome."""
    other = hall.call("second")
    welcome = other.expect(other.hello(resume=_resume(caller), **hello), "welcome")
    return other, welcome


@probe(
    "RESUME",
    "A hello with session and token takes the session up.",
    "R-RES-1",
    setting=FULL,
    right="`resumed: true`, the same name of the session, the old connection gone or not.",
    profile="resume",
)
def resume(hall: Hall) -> None:
    """A second connection resumes the session of the first."""
    caller, _ = _interrupted(hall)
    _, welcome = _taken_up(hall, caller)
    require(welcome.body["resumed"] is True, "resumed is false", welcome)
    given = (welcome.message or {})["session"]
    require(given == caller.session["session"], f"the session is {given!r}", welcome)


@probe(
    "RESUME-COUNT",
    "Each resume raises the epoch by one.",
    "R-RES-4",
    setting=FULL,
    right="1 in the first welcome, then 2, then 3.",
    profile="resume",
)
def resume_count(hall: Hall) -> None:
    """A session is resumed twice."""
    caller, _ = _interrupted(hall)
    epochs = [caller.session["epoch"]]
    for peer in ("second", "third"):
        other = hall.call(peer)
        welcome = other.expect(other.hello(resume=_resume(caller)), "welcome")
        epochs.append((welcome.message or {})["epoch"])
    require(epochs == [1, 2, 3], f"the epochs are {epochs}")


@probe(
    "RESUME-SAME-TOKEN",
    "Every welcome of a session carries the same token.",
    "R-RES-5",
    setting=FULL,
    right="Whoever dies before having noted a new one could not come back.",
    profile="resume",
)
def resume_same_token(hall: Hall) -> None:
    """A session is resumed, and its token looked at."""
    caller, _ = _interrupted(hall)
    _, welcome = _taken_up(hall, caller)
    require(welcome.body["token"] == caller.token, "the token is another", welcome)


@probe(
    "RESUME-AGAIN",
    "The outstanding request is sent again, with the state and a greater `attempt`.",
    "R-RES-7",
    "R-TIME-5",
    "R-STATE-1",
    setting=FULL,
    right="The same `now_us`, events and outcomes.",
    profile="resume",
)
def resume_again(hall: Hall) -> None:
    """A session is resumed while a request waits."""
    caller, request = _interrupted(hall)
    other, _ = _taken_up(hall, caller)
    again = other.expect(other.ready(), "decision.request")
    for name in ("now_us", "events", "outcomes"):
        given, due = canonical(again.body[name]), canonical(request.body[name])
        require(given == due, f"{name} is {given}, not {due}"[:300], again)
    require(again.body["attempt"] == 2, f"attempt is {again.body['attempt']}", again)
    require(again.body.get("state") is not None, "the state is missing", again)
    other.next_request(again)


@probe(
    "RESUME-WANTS",
    "`ask`, `wants` and capabilities stay those of the first hello, but for `state`.",
    "R-RES-6",
    setting=FULL,
    right="The welcome repeats the old ones.",
    profile="resume",
)
def resume_wants(hall: Hall) -> None:
    """A session is resumed by a hello that wants something else."""
    caller, _ = _interrupted(hall)
    _, welcome = _taken_up(
        hall, caller, ask="actionable", wants=["job.ended"], capabilities={"state": "snapshot"}
    )
    require(welcome.body["ask"] == "always", "ask has changed", welcome)
    require(len(welcome.body["wants"]) > 2, "wants has changed", welcome)
    given = welcome.body["granted"]["state"]
    require(given == "snapshot", f"state is {given}", welcome)


@probe(
    "RESUME-WRONG-TOKEN",
    "A hello with another token is refused, and changes nothing.",
    "R-RES-2",
    setting=FULL,
    right="A fatal `session.token`; for a session that there is not, too.",
    profile="resume",
)
def resume_wrong_token(hall: Hall) -> None:
    """Somebody guesses the token, somebody the name."""
    caller, request = _interrupted(hall)
    wrong = {**_resume(caller), "token": "0" * 32}
    refused(hall.call("thief").hello(resume=wrong), "session.token", fatal=True)
    nobody = {"session": "no such session", "token": caller.token}
    refused(hall.call("lost").hello(resume=nobody), "session.token", fatal=True)
    caller.next_request(request)


@probe(
    "RESUME-ENDED",
    "A session that has ended cannot be resumed.",
    "R-RES-3",
    setting=FULL,
    right="A fatal `session.over`.",
    profile="resume",
)
def resume_ended(hall: Hall) -> None:
    """A dispatcher leaves, and another wants to take the session up."""
    caller, _ = _interrupted(hall)
    caller.expect(caller.say("bye", {}), "session.end")
    refused(hall.call("late").hello(resume=_resume(caller)), "session.over", fatal=True)


@probe(
    "RESUME-ZOMBIE",
    "What an old dispatcher says after another has taken over is refused.",
    "R-RES-8",
    "R-SEQ-4",
    setting=FULL,
    right="A fatal `epoch.stale`; nothing of it is applied.",
    profile="resume",
)
def resume_zombie(hall: Hall) -> None:
    """The old client wakes up and replies."""
    caller, request = _interrupted(hall)
    other, _ = _taken_up(hall, caller)
    again = other.expect(other.ready(), "decision.request")
    caller.send(caller.reply_message(request, [start(1)]))
    refused(caller.receive(), "epoch.stale", fatal=True)
    running = [entry["job"]["job"] for entry in other.state()["running"]]
    require(running == [0], f"running is {running}", again)
    other.next_request(again)


@probe(
    "EPOCH-FUTURE",
    "A message of a later epoch is refused, and changes nothing.",
    "R-RES-8",
    setting=FULL,
    right="An `epoch.future` that is not fatal.",
    profile="resume",
)
def epoch_future(hall: Hall) -> None:
    """A reply names epoch 9."""
    caller, request = _interrupted(hall)
    caller.send({**caller.reply_message(request, [start(1)]), "epoch": 9})
    refused(caller.receive(), "epoch.future")
    caller.next_request(request)


@probe(
    "RESUME-SAME-RUN",
    "A run that was resumed simulates what it would have simulated undisturbed.",
    "R-RES-9",
    setting=FULL,
    right="The same instants and the same end, as far as the dispatchers decide the same.",
    profile="resume",
)
def resume_same_run(hall: Hall) -> None:
    """One run undisturbed, one interrupted at its third request."""
    courses = []
    for disturbed in (False, True):
        caller, line = _interrupted(hall)
        if disturbed:
            other, _ = _taken_up(hall, caller)
            caller, line = other, other.expect(other.ready(), "decision.request")
        follower, instants = Follower(caller), []
        for _ in range(100):
            if line.kind != "decision.request":
                break
            instants.append(line.body["now_us"])
            line = caller.reply(line, *follower.decide(line))
        courses.append((instants, line.body.get("stats"), line.body.get("reason")))
    require(courses[0] == courses[1], f"{courses[1]} is not {courses[0]}"[:400])


# ---------------------------------------------------------------------- safe and sound


@probe(
    "SEC-TOKEN",
    "Tokens hold at least 128 bits from a cryptographic source of chance.",
    "R-SEC-4",
    right="Each session has another; no part of them is the same.",
    profile="secure",
)
def sec_token(hall: Hall) -> None:
    """Sixteen sessions are opened, and their tokens compared."""
    tokens = []
    for number in range(16):
        caller = hall.call(str(number))
        caller.welcomed()
        tokens.append(caller.token)
        caller.say("bye", {})
    require(len(set(tokens)) == len(tokens), "two sessions have the same token")
    # As many bits as the marks at each place, taken together, can tell apart at most.
    bits = sum(math.log2(len(Counter(place)) or 1) for place in zip(*tokens, strict=False))
    require(min(map(len, tokens)) >= 16 and bits >= 48, f"the tokens vary in {bits:.0f} bits only")


@probe(
    "SEC-TOKEN-SHOWN",
    "The token is not shown in what the server prints.",
    "R-SEC-6",
    right="A trace of messages masks it.",
    profile="secure",
)
def sec_token_shown(hall: Hall) -> None:
    """A session is held, and what the server prints is looked at."""
    caller, request = hall.open()
    caller.next_request(request)
    time.sleep(0.1)
    require(caller.token not in hall.host.output(), "the token stands in the output of the server")


@probe(
    "SEC-HOSTILE",
    "No bytes from one peer end the server, or the session of another.",
    "R-SEC-7",
    "R-LIFE-7",
    right="Each frame is answered or passed over; the honest session goes on.",
    profile="secure",
    weight=2,
)
def sec_hostile(hall: Hall) -> None:
    """Two hundred frames of noise and broken messages, beside an honest session."""
    honest, request = hall.open()
    draw = random.Random(7)  # noqa: S311 - the same noise each time
    hello = wire.packed(honest.hello_message())
    for peer in range(4):
        hostile = hall.call(f"hostile {peer}")
        hostile.lenient = True
        for _ in range(50):
            noise = bytearray(hello)
            for _ in range(draw.randrange(1, 9)):
                noise[draw.randrange(len(noise))] = draw.randrange(256)
            frames = draw.choice(
                [
                    [b"", bytes(noise)],
                    [b"", draw.randbytes(draw.randrange(1, 99))],
                    [b"", b""],
                    [b"x", b"y"],
                    [b""],
                ]
            )
            hostile.send_frames(frames)
        # What is still on its way when a socket closes is lost: let all of it arrive.
        give_up = time.monotonic() + 3
        while not hostile.silent(0.1) and time.monotonic() < give_up:
            pass
        hostile.close()
    require(hall.host.alive, "the server has exited")
    honest.next_request(request)


@probe(
    "SEC-LISTENS-INSIDE",
    "The server does not listen where other machines reach it, without CURVE.",
    "R-SEC-1",
    right="It refuses such an endpoint, and says so.",
    profile="secure",
    alone=True,
    weight=2,
)
def sec_listens_inside(hall: Hall) -> None:
    """The server is started at an address that other machines reach."""
    host = hall.host
    port = _unused_port()
    host.close()
    host.start(f"tcp://0.0.0.0:{port}")
    hall.record.note(f"the server is started at tcp://0.0.0.0:{port}")
    give_up = time.monotonic() + 5
    while host.alive and time.monotonic() < give_up:
        with sockets.socket() as visitor:
            visitor.settimeout(0.2)
            if visitor.connect_ex(("127.0.0.1", port)) == 0:
                require(
                    _encrypts(host.endpoint.replace("0.0.0.0", "127.0.0.1"), hall),  # noqa: S104
                    "the server listens there without CURVE",
                )
                return
        time.sleep(0.05)


def _unused_port() -> int:
    """Return a port on which nobody listens, and which no system gives to one who takes any.

    Else it might be given to another program before ours has it, and that one be judged.
    """
    while True:
        port = random.randrange(20_000, 30_000)  # noqa: S311 - no secret
        with sockets.socket() as taker, contextlib.suppress(OSError):
            taker.bind(("127.0.0.1", port))
            return port


def _encrypts(endpoint: str, hall: Hall) -> bool:
    """Whether a peer that does not encrypt gets no answer there."""
    hall.host.endpoint = endpoint
    caller = hall.call("plain")
    caller.lenient = True
    try:
        caller.send(caller.hello_message())
        caller.receive(2)
    except Broken as error:
        return isinstance(error, Silent)
    return False


@probe(
    "LIMIT-SESSIONS",
    "A hello beyond the number of sessions that are taken is refused.",
    "R-LIM-7",
    right="A fatal `limit.sessions`.",
    profile="limits",
    alone=True,
    weight=2,
)
def limit_sessions(hall: Hall) -> None:
    """As many sessions as the welcome announces, and one more."""
    first = hall.call("0")
    most = first.welcomed().body["limits"].get("sessions")
    if most is None:
        raise NotForThis("the server announces no limit of sessions")
    if most > 256:
        raise NotForThis(f"the server takes {most} sessions")
    for number in range(1, int(most)):
        hall.call(str(number)).welcomed()
    refused(hall.call("one more").hello(), "limit.sessions", fatal=True)


CASES = cases_in(globals())
