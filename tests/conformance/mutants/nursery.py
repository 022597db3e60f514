"""Starts mutants by forking a process that has imported everything already.

A mutant that is started from nothing spends its time on imports; a hundred of them, each started
forty times, would take half an hour. A fork is a process like any other: with a group, an output
and an exit status of its own.

    python nursery.py        reads requests from standard input, one JSON object a line
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

PROJECT = Path(__file__).parents[3]


class Nursery:
    """The process that forks, seen from the tests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=PROJECT,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()

    def ask(self, **request):
        with self._lock:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def program(self, module, fault, *arguments):
        return Mutant(self, module, [fault, *arguments])


class Mutant:
    """A program of the kit's that is started by a fork."""

    def __init__(self, nursery, module, arguments) -> None:
        self._nursery, self._module, self._arguments = nursery, module, arguments

    def start(self, places, environment):
        from parley_conformance.process import expanded

        arguments = expanded(self._arguments, places)
        return Forked(self._nursery, self._module, arguments, dict(environment))


class Forked:
    def __init__(self, nursery, module, arguments, environment) -> None:
        self._nursery = nursery
        self._output = tempfile.NamedTemporaryFile()  # closed by close()
        self._status = None
        self._pid = nursery.ask(
            do="start", module=module, argv=arguments, env=environment, out=self._output.name
        )

    def poll(self):
        if self._status is None:
            self._status = self._nursery.ask(do="poll", pid=self._pid)
        return self._status

    def wait(self, seconds):
        give_up = time.monotonic() + seconds
        while self.poll() is None and time.monotonic() < give_up:
            time.sleep(0.01)
        return self.poll()

    def kill(self):
        self._nursery.ask(do="kill", pid=self._pid)
        self.wait(5)

    def output(self):
        return Path(self._output.name).read_text(errors="replace")[-65536:]

    def close(self):
        self.kill()
        self._output.close()


# ---------------------------------------------------------------------- the process that forks


def main() -> int:
    sys.path.insert(0, str(PROJECT))
    for module in ("dispatcher", "server"):
        importlib.import_module(f"tests.conformance.mutants.{module}")
    statuses: dict[int, int] = {}
    children: set[int] = set()
    for line in sys.stdin:
        request = json.loads(line)
        _reap(statuses)
        match request["do"]:
            case "start":
                pid = _fork(request)
                # Numbers are used again.
                statuses.pop(pid, None)
                children.add(pid)
                answer = pid
            case "poll":
                answer = statuses.get(request["pid"])
            case _:
                answer = None
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(request["pid"], signal.SIGKILL)
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    if request["pid"] not in statuses:
                        os.kill(request["pid"], signal.SIGKILL)
        print(json.dumps(answer), flush=True)
    for pid in children - statuses.keys():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return 0


def _reap(statuses: dict[int, int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        statuses[pid] = os.waitstatus_to_exitcode(status)


def _fork(request) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 70
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        out = os.open(request["out"], os.O_WRONLY | os.O_APPEND)
        for number, file in ((0, nothing), (1, out), (2, out)):
            os.dup2(file, number)
        for name in ("PARLEY_SESSION", "PARLEY_TOKEN"):
            os.environ.pop(name, None)
        os.environ.update(request["env"])
        time.tzset()
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        module = sys.modules[f"tests.conformance.mutants.{request['module']}"]
        status = module.main(request["argv"])
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 - a mutant may raise anything
        traceback.print_exc()
        status = 1
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status or 0)


if __name__ == "__main__":
    sys.exit(main())
