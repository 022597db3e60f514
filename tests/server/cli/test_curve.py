"""Keys: made once, asked for wherever others could listen, and a closed door without them."""

from __future__ import annotations

import os
import shutil
import stat
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import zmq

from tests.serving import JOBS
from tests.support import parley, write_swf
from tests.surviving import RESULTS, watched

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("curve")


@pytest.fixture(scope="module")
def keys(folder):
    """A directory with the keys of a server, of a client, and of a stranger."""
    process = parley(
        *("keys", folder / "keys", "--name", "server", "--name", "client", "--name", "stranger")
    )
    assert process.returncode == 0, process.stderr
    return folder / "keys"


@pytest.fixture(scope="module")
def friends(folder, keys):
    """A directory with the public keys of those who are let in."""
    directory = folder / "friends"
    directory.mkdir()
    shutil.copy(keys / "client.key", directory)
    return directory


@pytest.fixture(scope="module")
def scenario(folder):
    write_swf(folder / "small.swf", JOBS)
    path = folder / "small.toml"
    path.write_text('[platform]\nnodes = 4\n[workload]\nswf = "small.swf"\n')
    return path


@pytest.fixture(scope="module")
def expected(folder, scenario):
    process = parley("run", scenario, "--out", folder / "plain", "-q")
    assert process.returncode == 0, process.stderr
    return [(folder / "plain" / name).read_bytes() for name in RESULTS]


@contextmanager
def serving_with(scenario: Path, out: Path, *more: object, bind: str = "tcp://127.0.0.1:*"):
    arguments = ("serve", scenario, "--bind", bind, "--out", out, "--trace", *more)
    with watched(*arguments) as server:
        server.endpoint = server.first_line().removeprefix("listening at ").strip()
        yield server


def heard(server) -> list[str]:
    """Return what the server has heard of anybody."""
    return [line for line in server.lines if line.startswith("server <-")]


@contextmanager
def dispatching(server, *more: object):
    with watched("dispatch", "--connect", server.endpoint, "--policy", "fifo", *more) as client:
        yield client


# ---------------------------------------------------------------------- keys


def test_keys_are_made_and_the_secret_ones_are_for_their_user_alone(tmp_path):
    before = os.umask(0)
    try:
        process = parley("keys", tmp_path / "new" / "keys")
    finally:
        os.umask(before)
    directory = tmp_path / "new" / "keys"

    assert process.returncode == 0
    assert {path.name for path in directory.iterdir()} == {
        *("server.key", "server.key_secret", "client.key", "client.key_secret")
    }
    for name in ("server", "client"):
        secret = directory / f"{name}.key_secret"
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
        assert "secret-key" not in (directory / f"{name}.key").read_text()
        assert str(secret) in process.stdout


def test_keys_that_are_there_are_never_replaced(tmp_path):
    directory = tmp_path / "keys"
    assert parley("keys", directory).returncode == 0
    (directory / "server.key").unlink()
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    for names in ((), ("--name", "server"), ("--name", "other", "--name", "client")):
        process = parley("keys", directory, *names)

        assert process.returncode == 2
        assert "is there already" in process.stderr
        assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b", "a\nb"])
def test_a_name_that_is_no_file_is_refused(tmp_path, name):
    process = parley("keys", tmp_path / "keys", "--name", name)

    assert process.returncode == 2
    assert process.stderr.startswith("parley: ")
    assert process.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_keys_that_cannot_be_written_are_told(tmp_path):
    (tmp_path / "file").write_text("")
    process = parley("keys", tmp_path / "file")

    assert process.returncode == 1
    assert process.stderr.startswith(f"parley: {tmp_path / 'file'}: cannot be written: ")
    assert process.stderr.count("\n") == 1


# ---------------------------------------------------------------------- who gets in


@pytest.mark.parametrize("known", [True, False], ids=["known-clients", "any-client"])
def test_a_run_over_curve_is_the_same_as_any_other(
    scenario, keys, friends, expected, tmp_path, known
):
    clients = ("--curve-clients", friends) if known else ()
    secret = ("--curve-secret", keys / "server.key_secret")
    own = ("--curve-secret", keys / "client.key_secret") if known else ()
    out = tmp_path / "served"
    with (
        serving_with(scenario, out, *secret, *clients, "--sessions", 1) as server,
        dispatching(server, "--curve-server", keys / "server.key", *own) as client,
    ):
        statuses = [client.wait(), server.wait()]

    assert statuses == [0, 0]
    assert [(out / "1" / name).read_bytes() for name in RESULTS] == expected


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="no-keys"),
        pytest.param({"server": "server.key"}, id="no-key-of-its-own"),
        pytest.param({"server": "server.key", "secret": "stranger.key_secret"}, id="a-stranger"),
        pytest.param(
            {"server": "stranger.key", "secret": "client.key_secret"}, id="another-server"
        ),
    ],
)
def test_nobody_else_gets_in(scenario, keys, friends, tmp_path, given):
    secret = ("--curve-secret", keys / "server.key_secret", "--curve-clients", friends)
    options = [part for side, name in given.items() for part in (f"--curve-{side}", keys / name)]
    with serving_with(scenario, tmp_path / "served", *secret) as server:
        with dispatching(server, *options) as outsider:
            time.sleep(1.5)
            still_knocking = outsider.process.poll() is None
            left = heard(server)
        with dispatching(
            server,
            *("--curve-server", keys / "server.key"),
            *("--curve-secret", keys / "client.key_secret"),
        ) as client:
            status = client.wait()

    assert still_knocking
    assert left == []
    assert status == 0
    assert [path.name for path in (tmp_path / "served").iterdir()] == ["1"]


def test_without_keys_nobody_reads_what_is_said(scenario, keys, tmp_path):
    """What goes over the wire is looked at by a man in the middle."""
    secret = ("--curve-secret", keys / "server.key_secret", "--sessions", 1)
    with serving_with(scenario, tmp_path / "served", *secret) as server:
        with overheard(server.endpoint) as (endpoint, said):
            server.endpoint = endpoint
            with dispatching(server, "--curve-server", keys / "server.key") as client:
                status = client.wait()
        server.wait()
    everything = b"".join(said)

    assert status == 0
    assert len(everything) > 1000
    for word in (b"hello", b"decision", b"token", b"session", b"submitted"):
        assert word not in everything.replace(b"\x05HELLO", b"")


@contextmanager
def overheard(endpoint: str):
    """Pass bytes on to an endpoint, and keep them."""
    import socket
    import threading

    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    said: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def pass_on(source, target):
        while data := source.recv(65536):
            said.append(data)
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)

    def accept():
        near, _ = listener.accept()
        with near, socket.create_connection((host, int(port))) as far:
            there = threading.Thread(target=pass_on, args=(near, far))
            there.start()
            pass_on(far, near)
            there.join()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}", said
    finally:
        thread.join(30)
        listener.close()


# ---------------------------------------------------------------------- where to listen


@pytest.mark.parametrize("bind", ["tcp://0.0.0.0:*", "tcp://*:*", "tcp://[::]:*"])
def test_without_keys_a_server_listens_to_this_machine_alone(scenario, tmp_path, bind):
    process = parley("serve", scenario, "--bind", bind, "--out", tmp_path / "served")

    assert process.returncode == 2
    assert process.stderr.startswith(f"parley: {bind!r} can be reached from other machines")
    assert "--curve-secret" in process.stderr
    assert process.stderr.count("\n") == 1
    assert not (tmp_path / "served").exists()


def test_with_keys_a_server_listens_to_everybody(scenario, keys, friends, expected, tmp_path):
    secret = ("--curve-secret", keys / "server.key_secret", "--curve-clients", friends)
    out = tmp_path / "served"
    with serving_with(scenario, out, *secret, "--sessions", 1, bind="tcp://0.0.0.0:*") as server:
        bound = server.endpoint
        server.endpoint = server.endpoint.replace("0.0.0.0", "127.0.0.1")
        with dispatching(
            server,
            *("--curve-server", keys / "server.key"),
            *("--curve-secret", keys / "client.key_secret"),
        ) as client:
            statuses = [client.wait(), server.wait()]

    assert bound.startswith("tcp://0.0.0.0:")
    assert statuses == [0, 0]
    assert [(out / "1" / name).read_bytes() for name in RESULTS] == expected


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        pytest.param(("--curve-secret", "{}/none"), 2, "none: no certificate", id="missing"),
        pytest.param(("--curve-secret", "{}/server.key"), 2, "a public key only", id="public"),
        pytest.param(("--curve-secret", "{}"), 2, "no certificate", id="directory"),
        pytest.param(("--curve-clients", "{}"), 2, "--curve-secret", id="clients-alone"),
        pytest.param(
            ("--curve-secret", "{}/server.key_secret", "--curve-clients", "{}/none"),
            *(2, "holds no public certificate"),
            id="no-clients",
        ),
    ],
)
def test_keys_that_cannot_be_used_are_told_by_the_server(
    scenario, keys, tmp_path, options, status, words
):
    named = [option.format(keys) for option in options]
    process = parley(
        *("serve", scenario, "--bind", "tcp://127.0.0.1:*", "--out", tmp_path / "served", *named)
    )

    assert process.returncode == status
    assert process.stderr.startswith("parley: ")
    assert process.stderr.count("\n") == 1
    assert words in process.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param(("--curve-server", "{}/none"), "no certificate", id="missing"),
        pytest.param(("--curve-secret", "{}/client.key_secret"), "--curve-server", id="own-alone"),
        pytest.param(
            ("--curve-server", "{}/server.key", "--curve-secret", "{}/client.key"),
            "a public key only",
            id="public",
        ),
        pytest.param(("--curve-server", "{}"), "no certificate", id="directory"),
    ],
)
def test_keys_that_cannot_be_used_are_told_by_the_dispatcher(keys, options, words):
    named = [option.format(keys) for option in options]
    process = parley("dispatch", "--connect", "tcp://127.0.0.1:1", *named)

    assert process.returncode == 2
    assert process.stderr.startswith("parley dispatch: ")
    assert process.stderr.count("\n") == 1
    assert words in process.stderr


@pytest.mark.parametrize("spoil", ["short-key", "no-key", "binary"])
def test_a_certificate_that_is_damaged_is_told_by_either_side(scenario, keys, tmp_path, spoil):
    damaged = tmp_path / "damaged.key_secret"
    content = (keys / "server.key_secret").read_bytes()
    if spoil == "short-key":
        lines = content.splitlines(keepends=True)
        content = b"".join(
            line.replace(line.split(b'"')[1][8:], b"") if b"-key = " in line else line
            for line in lines
        )
    damaged.write_bytes({"no-key": b"metadata\n", "binary": b"\xff\xfe\x00"}.get(spoil, content))
    served = parley(
        *("serve", scenario, "--bind", "tcp://127.0.0.1:*", "--out", tmp_path / "served"),
        *("--curve-secret", damaged),
    )
    dispatched = parley(*("dispatch", "--connect", "tcp://127.0.0.1:1", "--curve-server", damaged))

    for process in (served, dispatched):
        assert process.returncode == 2, process.stderr
        assert process.stderr.startswith("parley")
        assert "Traceback" not in process.stderr
        assert process.stderr.count("\n") == 1


def test_a_client_that_is_not_let_in_does_not_wait_for_ever(scenario, keys, friends, tmp_path):
    """`timeout` of the library is what the command waits for its first answer."""
    from parley_client import serve
    from parley_client.connection import ConnectionLost, CurveKeys

    secret = ("--curve-secret", keys / "server.key_secret", "--curve-clients", friends)
    with serving_with(scenario, tmp_path / "served", *secret) as server:
        for curve in (None, CurveKeys(keys / "server.key", keys / "stranger.key_secret")):
            with pytest.raises(ConnectionLost, match="no server answered"):
                serve("fifo", server.endpoint, timeout=0.5, curve=curve)

    assert heard(server) == []


def test_this_machine_can_encrypt():
    assert zmq.has("curve")
