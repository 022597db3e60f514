"""Random workloads, a random dispatcher, in process and over a real socket."""

from __future__ import annotations

import threading

import zmq
from hypothesis import given, settings
from hypothesis import strategies as st

from parley_protocol import decode, encode
from parley_server.engine import ListSource, OnOverrun
from parley_server.host.inprocess import run_in_process
from parley_server.host.router import Router
from parley_server.host.session import Offer, Session
from tests.strategies import cases, seeds
from tests.whimsical import Whimsical


class Keeping:
    """A sink that keeps everything."""

    def __init__(self):
        self.records, self.instants, self.failure = [], [], None

    def collect(self, simulation):
        self.records += simulation.take_records()
        self.instants += simulation.take_instants()

    def timed(self, now, *, dispatcher_us, server_us, wire_us):
        assert min(dispatcher_us, server_us, wire_us) >= 0

    def tick(self, clock_ns):
        pass

    def outline(self):
        jobs = [(r.job.number, r.state, r.start, r.end, r.allocation) for r in self.records]
        return jobs, self.instants


class Hosted:
    """A run without files, for the router."""

    def __init__(self, offer):
        self.sink = Keeping()
        self.session = Session(offer, self.sink)
        self.transcript = None

    def finished(self, failure):
        self.sink.failure = failure


def offer_of(case, on_overrun) -> Offer:
    rules = dict.fromkeys(
        ("request", "select", "on_overrun", "estimate", "estimate_missing"), "as in the test"
    )
    return Offer(
        name="random",
        digest="0",
        rules=rules,
        groups=case.groups,
        open_source=lambda: ListSource(case.jobs),
        on_overrun=on_overrun,
        audit=True,
    )


def talk(endpoint: str, dispatcher: Whimsical, kind: int) -> str:
    """Hold the whole conversation from the client's side; return the last message's reason."""
    with zmq.Context() as context, context.socket(kind) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(endpoint)
        envelope = {"v": 1}

        def ask(type_, body, **more):
            frame = encode({**envelope, "type": type_, "body": body, **more})
            socket.send_multipart([frame] if kind == zmq.REQ else [b"", frame])
            assert socket.poll(20_000)
            return decode(socket.recv_multipart()[-1])

        message = ask("hello", dispatcher.hello())
        envelope |= {"session": message["session"], "epoch": message["epoch"]}
        dispatcher.begin(message["body"])
        message = ask("ready", {}, re=message["seq"])
        while message["type"] == "decision.request":
            reply = dispatcher.decide(message["body"])
            message = ask("decision.reply", reply, re=message["seq"])
        return message["body"]["reason"]


def over_the_wire(offer, dispatchers, kind=zmq.DEALER):
    """Run one session for each dispatcher at once; return what each left behind, in order."""
    hosted = {}

    def open_hosted(hello):
        return hosted.setdefault(hello["client"]["version"], Hosted(offer))

    router = Router("tcp://127.0.0.1:*", open_hosted, limit=len(dispatchers))
    threads = [
        threading.Thread(target=talk, args=(router.endpoint, dispatcher, kind), daemon=True)
        for dispatcher in dispatchers
    ]
    for index, (thread, dispatcher) in enumerate(zip(threads, dispatchers, strict=True)):
        introduce(dispatcher, str(index))
        thread.start()
    router.run()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    router.close()
    return [hosted[str(index)].sink for index in range(len(dispatchers))]


def introduce(dispatcher: Whimsical, version: str) -> None:
    hello = dispatcher.hello()
    hello["client"]["version"] = version
    dispatcher.hello = lambda: hello


def in_process(offer, dispatcher) -> Keeping:
    sink = Keeping()
    run_in_process(Session(offer, sink), dispatcher, sink)
    return sink


modes = st.sampled_from(["events", "snapshot"])
asking = st.sampled_from(["always", "actionable"])


@given(case=cases(), seed=seeds, state=modes, ask=asking, on_overrun=st.sampled_from(OnOverrun))
def test_no_invariant_breaks_in_process(case, seed, state, ask, on_overrun):
    sink = in_process(offer_of(case, on_overrun), Whimsical(seed, state=state, ask=ask))

    ended = [record.job.number for record in sink.records]
    assert len(ended) == len(set(ended))


@settings(max_examples=30)
@given(
    case=cases(max_size=12),
    seed=seeds,
    state=modes,
    ask=asking,
    kind=st.sampled_from([zmq.DEALER, zmq.REQ]),
)
def test_no_invariant_breaks_over_a_socket_and_the_run_is_the_same(case, seed, state, ask, kind):
    offer = offer_of(case, OnOverrun.RUN)
    (wired,) = over_the_wire(offer, [Whimsical(seed, state=state, ask=ask)], kind)
    direct = in_process(offer, Whimsical(seed, state=state, ask=ask))

    assert wired.outline() == direct.outline()


@settings(max_examples=10)
@given(case=cases(max_size=10), numbers=st.lists(seeds, min_size=2, max_size=5))
def test_sessions_side_by_side_are_what_each_would_be_alone(case, numbers):
    offer = offer_of(case, OnOverrun.KILL)
    together = over_the_wire(offer, [Whimsical(seed) for seed in numbers])
    alone = [in_process(offer, Whimsical(seed)) for seed in numbers]

    assert [sink.outline() for sink in together] == [sink.outline() for sink in alone]
