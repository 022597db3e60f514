"""A live server under hostile frames: what it answers, what it keeps, and whom it forgets.

    python tests/benchmarks/fuzz.py [--frames N] [--seed N] [--sockets N] [--honest N]

Starts `parley serve`, lets honest dispatchers decide for one session after another, and meanwhile
sends frames from hostile sockets: valid messages of every type in both encodings with bits
flipped, cut off, stretched, spliced or with one field replaced, and constructions that are meant
to cost much. Prints what came of it and exits with 1 unless every honest session ended with the
right `jobs.csv`, every frame that was waited for was answered, the server lives, and its resident
memory has grown by less than 10 MB since the end of the warm-up.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgpack
import psutil
import zmq

sys.path.insert(0, str(Path(__file__).parents[2]))

from parley_client import serve
from parley_client.errors import ClientError
from parley_protocol.codec import Dialect, encode
from parley_protocol.examples import EXAMPLES, SESSION
from parley_protocol.messages import CLIENT_MESSAGES
from tests.benchmarks.bench import PARLEY, generate
from tests.payloads import UNDECODABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

MOST_GROWTH = 10 * 2**20
"""Bytes of resident memory that a server may gain."""

NODES = 100
JOBS = 60
POLICY = "easy"

WINDOW = 6
"""Frames that a hostile socket sends ahead of their answers."""

STEPS = 10
"""How often the memory is looked at."""

PATIENCE = 20.0
"""Seconds after which an answer counts as missing."""

PAUSE = 0.2
"""Seconds between two sessions of an honest dispatcher."""

LIFETIME = 4000
"""Frames after which a hostile socket vanishes without a word, and another takes its place."""


# ---------------------------------------------------------------------- hostile frames

VALUES: Sequence[Any] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**53 - 1, 2**53, 2**63, -(2**63), 0.5, 1.0, 1e300),
    *("", "x", "1", "hello", "\0", "\u2028", "x" * 70_000, b"", b"\x00" * 9, [], {}, [[]], {"": 0}),
    *([0] * 5000, {str(number): number for number in range(500)}, float("nan"), float("inf")),
)

HOSTILE_JSON: Sequence[bytes] = (
    *(b"{", b'{"v":1', b"{}", b'{"v":1}}', b"{'v':1}", b'{"v":NaN}', b'{"v":1e999}'),
    *(b'{"v":1,"v":1}', b'{"v":"\\ud800"}', b'{"v":"\xff"}', b'{"v":' + b"9" * 5000 + b"}"),
    *(b'{"v":' + b"[" * 5000, b'{"v":' * 5000, b'{"type":"hello","body":[]}'),
)

COSTLY: Sequence[bytes] = (
    b"\x81\xa1x\xdd\x00\x0f\x42\x40" + b"\xc0" * 1_000_000,
    b"\x81\xa1x\xdd\x00\x0f\x42\x40" + b"\x90" * 1_000_000,
    b'{"v":[' + b"[]," * 300_000 + b"[]]}",
    b'{"v":"' + b"x" * 300_000 + b'"}',
    b"\x81\xa1x" + b"\x91" * 100_000 + b"\x01",
    b'{"v":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    bytes(2**20),
)
"""Rare: each takes the server some milliseconds at least."""


class Forge:
    """Makes hostile frames, the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        every = [dict(message) for message in (*SESSION, *EXAMPLES.values())]
        # What a client may say comes farther than what it may not.
        mine = [message for message in every if message["type"] in CLIENT_MESSAGES]
        self._messages = [*every, *mine, *mine]
        self._constructed = [*(payload for _, payload in UNDECODABLE.values()), *HOSTILE_JSON]
        self._mutations: Sequence[Callable[[bytes], bytes]] = (
            *(self._flip, self._cut, self._insert, self._drop, self._repeat, self._splice),
            self._keep,
        )

    def frames(self, session: Mapping[str, Any]) -> list[bytes]:
        """Return what to send: one payload behind an empty frame, most of the time."""
        draw = self._draw
        if draw.random() < 0.01:
            parts = [draw.choice((b"", b"x", self.payload(session))) for _ in range(3)]
            return parts[: draw.randrange(1, 4)]
        return [b"", self.payload(session)]

    def payload(self, session: Mapping[str, Any]) -> bytes:
        """Return a payload; most are near to what would be legal in a session."""
        draw = self._draw
        chance = draw.random()
        if chance < 0.0005:
            return draw.choice(COSTLY)
        if chance < 0.1:
            return draw.choice(self._constructed)
        if chance < 0.13:
            return draw.randbytes(draw.randrange(200))
        if chance < 0.4:
            return self._write(self._with_another_value(self._message(session)))
        return draw.choice(self._mutations)(self._write(self._message(session)))

    def _message(self, session: Mapping[str, Any]) -> dict[str, Any]:
        message = dict(self._draw.choice(self._messages))
        if session and "session" in message and self._draw.random() < 0.7:
            message.update(session)
        return message

    def _write(self, message: Any) -> bytes:
        dialect = Dialect.JSON if self._draw.random() < 0.4 else Dialect.MESSAGEPACK
        try:
            return encode(message, dialect)
        except (TypeError, OverflowError, ValueError):
            # JSON knows no bytes, MessagePack no integers beyond 64 bits.
            return msgpack.packb(message, default=str)

    def _with_another_value(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return a message in which one field is another, gone, or in excess."""
        twin: Any = json.loads(json.dumps(message))
        places = [place for place in _containers(twin) if place]
        place: Any = self._draw.choice(places)
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = self._draw.choice(list(keys))
        fate = self._draw.random()
        if fate < 0.15:
            del place[key]
        elif fate < 0.3 and isinstance(place, dict):
            place["excess"] = self._draw.choice(VALUES)
        else:
            place[key] = self._draw.choice(VALUES)
        return twin

    # ------------------------------------------------------------------ mutations

    def _keep(self, frame: bytes) -> bytes:
        return frame

    def _flip(self, frame: bytes) -> bytes:
        flipped = bytearray(frame)
        for _ in range(self._draw.randrange(1, 9)):
            flipped[self._draw.randrange(len(flipped))] ^= 1 << self._draw.randrange(8)
        return bytes(flipped)

    def _cut(self, frame: bytes) -> bytes:
        return frame[: self._draw.randrange(len(frame))]

    def _insert(self, frame: bytes) -> bytes:
        place = self._draw.randrange(len(frame) + 1)
        return frame[:place] + self._draw.randbytes(self._draw.randrange(1, 9)) + frame[place:]

    def _drop(self, frame: bytes) -> bytes:
        begin, end = self._slice(frame)
        return frame[:begin] + frame[end:]

    def _repeat(self, frame: bytes) -> bytes:
        begin, end = self._slice(frame)
        return frame[:end] + frame[begin:]

    def _splice(self, frame: bytes) -> bytes:
        other = self._write(self._draw.choice(self._messages))
        return frame[: self._draw.randrange(len(frame))] + other[self._draw.randrange(len(other)) :]

    def _slice(self, frame: bytes) -> tuple[int, int]:
        begin = self._draw.randrange(len(frame))
        return begin, begin + self._draw.randrange(1, 1 + min(64, len(frame) - begin))


def _containers(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from _containers(item)


# ---------------------------------------------------------------------- hostile sockets


class Hostile:
    """A socket that sends whatever the forge makes, within a session as often as it gets one."""

    def __init__(self, endpoint: str, forge: Forge, draw: random.Random, *, deaf: bool) -> None:
        self._endpoint = endpoint
        self._forge = forge
        self._draw = draw
        self._deaf = deaf
        self._context = zmq.Context()
        self._socket = self._connected()
        self._session: dict[str, Any] = {}
        self._struck_off = False
        self._sent = self._outstanding = 0
        self.answers: Counter[str] = Counter()
        self.unanswered = 0

    def send(self, given: list[bytes] | None = None) -> None:
        """Send one message, by default a forged one, and read what answers are there."""
        self._sent += 1
        if self._sent % LIFETIME == 0:
            self.settle()
            self._vanish()
        if not self._session and not self._deaf and self._draw.random() < 0.02:
            self._open()
        elif self._struck_off and self._draw.random() < 0.7:
            # Nobody reads on what it says; as another stranger it is heard again.
            self.settle()
            self._vanish()
        frames = given or self._forge.frames(self._session)
        try:
            self._socket.send_multipart(frames, zmq.DONTWAIT)
        except zmq.Again:
            # A deaf one is not listened to for ever.
            self._vanish()
            return
        self._outstanding += 1
        if not self._deaf:
            self._read(0 if self._outstanding < WINDOW else round(PATIENCE * 1000))

    def settle(self) -> None:
        """Wait for the answers that are due."""
        give_up = time.monotonic() + PATIENCE
        while self._outstanding > 0 and not self._deaf and time.monotonic() < give_up:
            self._read(100)
        if not self._deaf:
            self.unanswered += max(self._outstanding, 0)
        self._outstanding = 0

    def close(self) -> None:
        """Vanish without a word."""
        self._socket.close()
        self._context.term()

    def _open(self) -> None:
        """Behave, as far as the first request."""
        self.settle()
        # As a stranger it has been struck off.
        self._vanish()
        for message in (_HELLO, {"v": 1, "type": "ready", "body": {}}):
            self._socket.send_multipart([b"", encode({**message, **self._session})])
            self._outstanding += 1
            self.settle()

    def _vanish(self) -> None:
        self._socket.close()
        self._socket = self._connected()
        self._session = {}
        self._struck_off = False

    def _connected(self) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(self._endpoint)
        return socket

    def _read(self, wait_ms: int) -> None:
        if wait_ms and not self._socket.poll(wait_ms):
            if wait_ms > 1000:
                self.unanswered += self._outstanding
                self._outstanding = 0
            return
        while True:
            try:
                frame = self._socket.recv_multipart(zmq.DONTWAIT)[-1]
            except zmq.Again:
                return
            self._outstanding -= 1
            self._hear(json.loads(frame) if frame[:1] == b"{" else msgpack.unpackb(frame))

    def _hear(self, message: Mapping[str, Any]) -> None:
        kind, body = message["type"], message["body"]
        self.answers[body["code"] if kind == "error" else kind] += 1
        if kind == "error" and body["code"] == "message.undecodable":
            self._struck_off = True
        if kind == "session.end" or (kind == "error" and body["fatal"]):
            self._session = {}
        elif "session" in message:
            self._session = {key: message[key] for key in ("session", "epoch")}
            self._session["re"] = message["seq"]


_HELLO = {
    "v": 1,
    "type": "hello",
    "body": {"versions": ["1.0"], "client": {"name": "x", "version": "0"}, "scenario": "hostile"},
}


# ---------------------------------------------------------------------- honest dispatchers


class Honest:
    """Dispatchers that decide for one session after another, in a process of their own."""

    def __init__(self, endpoint: str, count: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--honest", str(count), "--decide-at", endpoint],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ends: Counter[str] = Counter()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def finish(self) -> bool:
        """Let each end its session; whether they did."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        status = self._process.wait(120)
        self._reader.join(10)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return status == 0

    def kill(self) -> None:
        """End it the hard way, if it is still there."""
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.ends[line.strip()] += 1


def decide_at(endpoint: str, count: int) -> int:
    """Decide in so many threads until standard input is closed; print how each session ended."""
    stopping = threading.Event()

    def decide() -> None:
        while not stopping.is_set():
            try:
                end = serve(POLICY, endpoint, scenario="honest", timeout=60)["reason"]
            except ClientError as error:
                end = str(error)
            # In one piece: other threads print too.
            print(f"{end}\n", end="", flush=True)
            stopping.wait(PAUSE)

    threads = [threading.Thread(target=decide) for _ in range(count)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stopping.set()
    for thread in threads:
        thread.join()
    return 0


# ---------------------------------------------------------------------- all of it


class Fuzz:
    """A server, its honest dispatchers and its hostile sockets."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self._folder = folder
        self._options = options
        generate(folder / "trace.swf", JOBS)
        for name in ("hostile", "honest"):
            (folder / f"{name}.toml").write_text(
                f'[platform]\nnodes = {NODES}\n[workload]\nswf = "trace.swf"\n'
                f'[run]\nname = "{name}"\n'
            )
        subprocess.run(
            [
                *(*PARLEY, "run", str(folder / "honest.toml"), "--policy", POLICY, "-q"),
                *("--out", str(folder / "alone")),
            ],
            check=True,
        )

    def run(self) -> bool:
        """Do it and tell of it; whether all is well."""
        folder, options = self._folder, self._options
        scenarios = [str(folder / f"{name}.toml") for name in ("hostile", "honest")]
        with (folder / "stderr").open("w") as errors:
            server = subprocess.Popen(
                [
                    *(*PARLEY, "serve", *scenarios, "--bind", "tcp://127.0.0.1:*"),
                    *("--out", str(folder / "served")),
                ],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert server.stdout is not None
        endpoint = server.stdout.readline().removeprefix("listening at ").strip()
        # What it says of each session must not fill the pipe.
        drain = threading.Thread(target=server.stdout.read)
        drain.start()
        honest = Honest(endpoint, options.honest)
        try:
            verdicts = self._attack(server, endpoint, honest)
        finally:
            honest.kill()
            if server.poll() is None:
                server.send_signal(signal.SIGINT)
                try:
                    server.wait(30)
                except subprocess.TimeoutExpired:
                    server.kill()
            drain.join(10)
            server.stdout.close()
        verdicts["no fault of the server's own"] = self._no_fault()
        verdicts["every honest jobs.csv is right"] = self._results_are_right(honest)
        for verdict, holds in verdicts.items():
            print(f"{'yes' if holds else 'NO':>12}  {verdict}")
        return all(verdicts.values())

    def _attack(
        self, server: subprocess.Popen[str], endpoint: str, honest: Honest
    ) -> dict[str, bool]:
        options = self._options
        memory = psutil.Process(server.pid)
        draw = random.Random(options.seed)
        forge = Forge(options.seed)
        sockets = [
            Hostile(endpoint, forge, draw, deaf=number == 0) for number in range(options.sockets)
        ]
        try:
            # What costs most leaves its traces in the allocator: not to be taken for a leak.
            for payload in [*COSTLY, *COSTLY]:
                sockets[-1].send([b"", payload])
                sockets[-1].settle()
            warm_up = max(options.frames // 5, 1000)
            self._send_watched(sockets, warm_up, draw, memory)
            # Each has been through whole sessions, and everything is imported that ever is.
            give_up = time.monotonic() + 60
            while honest.ends.total() < 2 * options.honest and time.monotonic() < give_up:
                time.sleep(0.05)
            before = statistics.median(self._send_watched(sockets, warm_up, draw, memory))
            ended = honest.ends.total()
            began = time.perf_counter()
            course = self._send_watched(sockets, options.frames, draw, memory)
            took = time.perf_counter() - began
            after = statistics.median(course[len(course) // 2 :])
            meanwhile = honest.ends.total() - ended
            alive = server.poll() is None
            finished = honest.finish()
        finally:
            for socket in sockets:
                socket.close()
        answers = sum((socket.answers for socket in sockets), Counter[str]())
        unanswered = sum(socket.unanswered for socket in sockets)
        figures = [
            (f"{options.frames:,}", f"frames in {took:.1f} s"),
            (f"{options.frames / took:,.0f}", "frames per second"),
            (f"{honest.ends.total():,}", f"honest sessions, {meanwhile:,} of them meanwhile"),
            (f"{unanswered:,}", "frames not answered"),
            (f"{before / 2**20:.1f}", "MB resident after the warm-up"),
            (f"{after / 2**20:.1f}", f"MB in the end, {(after - before) / 2**20:+.1f}; on the way"),
            ("", " ".join(f"{size / 2**20:.1f}" for size in course)),
            *((f"{count:,}", kind) for kind, count in sorted(answers.items())),
            *(
                (f"{count:,}", f"honest sessions ended otherwise: {end}")
                for end, count in honest.ends.items()
                if end != "completed"
            ),
        ]
        for figure, name in figures:
            print(f"{figure:>12}  {name}")
        return {
            "the server lives": alive,
            "every frame was answered": not unanswered,
            "every honest session is complete": finished and set(honest.ends) == {"completed"},
            "memory is flat": after - before < MOST_GROWTH,
        }

    def _send_watched(
        self,
        sockets: Sequence[Hostile],
        frames: int,
        draw: random.Random,
        process: psutil.Process,
    ) -> list[int]:
        """Send frames; return the resident memory on the way: it goes up and down a little."""
        sizes = []
        for step in range(STEPS):
            self._send(sockets, frames * (step + 1) // STEPS - frames * step // STEPS, draw)
            sizes.append(process.memory_info().rss)
        return sizes

    def _send(self, sockets: Sequence[Hostile], frames: int, draw: random.Random) -> None:
        for _ in range(frames):
            draw.choice(sockets).send()
        for socket in sockets:
            socket.settle()

    def _no_fault(self) -> bool:
        said = (self._folder / "stderr").read_text()
        return "fault of our own" not in said and "Traceback" not in said

    def _results_are_right(self, honest: Honest) -> bool:
        expected = (self._folder / "alone" / "jobs.csv").read_bytes()
        right = wrong = 0
        for directory in (self._folder / "served").iterdir():
            scenario = directory / "scenario.toml"
            if not scenario.exists() or 'name = "honest"' not in scenario.read_text():
                continue
            if (directory / "jobs.csv").read_bytes() == expected:
                right += 1
            else:
                wrong += 1
        return right == honest.ends.total() and not wrong


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=200_000, help="how many, after the warm-up")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sockets", type=int, default=6, help="hostile ones; the first is deaf")
    parser.add_argument("--honest", type=int, default=8, help="honest sessions at a time")
    parser.add_argument("--decide-at", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.decide_at:
        return decide_at(options.decide_at, options.honest)
    with tempfile.TemporaryDirectory() as folder:
        return 0 if Fuzz(Path(folder), options).run() else 1


if __name__ == "__main__":
    sys.exit(main())
