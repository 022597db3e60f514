"""`parley replay` and `parley transcript`: recorded dialogues, played again and checked."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parley_server.errors import ExitStatus, InputError, RunFailed, UsageError
from parley_server.quantities import format_seconds, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parley_conformance.replay import Agreement, Comparison
    from parley_protocol.transcript import TranscriptReader


def replay(
    ctx: typer.Context,
    transcript: Annotated[Path, typer.Argument(help="A transcript, as --transcript writes it.")],
    server: Annotated[
        str | None,
        typer.Option(help="Play the dispatcher's half to the server at this endpoint instead."),
    ] = None,
    compare: Annotated[
        str,
        typer.Option(
            help="How far each message must agree: bytes, canonical (the same fields and values), "
            "or legal (another decision will do, if it may be carried out)."
        ),
    ] = "canonical",
    deadline: Annotated[str, typer.Option(help="Wall time for each message.")] = "60s",
) -> None:
    """Play the server's half of a transcript to a dispatcher, and compare what it replies.

    The dispatcher is the command behind `--`: {endpoint} in it is replaced by where to connect,
    and PARLEY_ENDPOINT is set to the same. What a reply says of the wall time it took is left out
    of every comparison.
    """
    from parley_conformance.replay import Agreement  # noqa: PLC0415

    command: list[str] | None = ctx.meta.get("command")
    if (command is None) == (server is None):
        raise UsageError("to whom? give --server ENDPOINT, or a dispatcher's command behind --")
    levels = {"bytes": Agreement.BYTES, "canonical": Agreement.CANONICAL, "legal": Agreement.LEGAL}
    if compare not in levels:
        raise UsageError(f"--compare {compare}: there are bytes, canonical and legal")
    patience = parse_duration(deadline) / 1e6
    with _opened(transcript) as reader:
        if server is not None:
            comparison = _replay_at(server, reader, patience)
        else:
            comparison = _replay_to(command or [], reader, levels[compare], patience)
    _show(comparison, transcript, "canonically the same" if server else "the same in other bytes")


def check(
    transcript: Annotated[Path, typer.Argument(help="A transcript, as --transcript writes it.")],
) -> None:
    """Check a transcript: its digest, its bytes against their view, its order."""
    from parley_protocol.transcript import check_dialogue  # noqa: PLC0415 - not for --help

    with _opened(transcript) as reader:
        count = check_dialogue(reader.entries())
    typer.echo(f"{transcript}: {count} messages, in order")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[TranscriptReader]:
    """Open a transcript; what is wrong with it names the file and the line."""
    from parley_protocol.transcript import TranscriptError, TranscriptReader  # noqa: PLC0415

    try:
        with path.open(encoding="utf-8", newline="\n") as lines:
            yield TranscriptReader(lines)
    except TranscriptError as error:
        raise InputError(f"{path}: {error}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: no transcript: not a text file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None


def _replay_at(server: str, reader: TranscriptReader, patience: float) -> Comparison:
    import zmq  # noqa: PLC0415 - not for --help

    from parley_conformance.replay import replay_to_server  # noqa: PLC0415

    try:
        return replay_to_server(reader.entries(partial=True), server, patience=patience)
    except zmq.ZMQError as error:
        raise UsageError(
            f"{server!r} is no endpoint to connect to ({error}); it looks like tcp://127.0.0.1:5555"
        ) from None


def _replay_to(
    command: list[str], reader: TranscriptReader, demanded: Agreement, patience: float
) -> Comparison:
    from parley_conformance.replay import Replay  # noqa: PLC0415
    from parley_server.cli.interrupts import Interrupts  # noqa: PLC0415
    from parley_server.host.child import Child, require_command  # noqa: PLC0415

    if not command:
        raise UsageError("a command is missing behind --")
    require_command(command)
    interrupts = Interrupts()
    player = Replay(reader.entries(partial=True), demanded=demanded, patience=patience)
    child: Child | None = None
    try:
        child = Child(command, player.endpoint)

        def look() -> None:
            interrupts.poll()
            if child is not None and child.ended:
                raise child.failure()

        return player.run(look)
    finally:
        player.close()
        if child is not None:
            child.end(patience=1.0)


def _show(comparison: Comparison, path: Path, same: str) -> None:
    """Print what came of it, and end with an error where it is not what was demanded."""
    parts = [
        f"{count:,} {_WORDS.get(level.name, same)}"
        for level, count in sorted(comparison.counts.items(), reverse=True)
        if count
    ]
    typer.echo(f"{path}: {comparison.compared:,} messages: {', '.join(parts) or 'none compared'}")
    difference: Any = comparison.difference
    if difference is not None:
        where = f" {difference.path}:" if difference.path else ""
        raise RunFailed(
            "replay_differs",
            f"{path}: line {difference.line}, at {format_seconds(difference.now_us)} s:{where} "
            f"{difference.reason}",
        )
    if comparison.skipped:
        typer.echo(f"{comparison.skipped:,} messages of the record follow that were not played")
    if not comparison.compared:
        raise typer.Exit(ExitStatus.FAILED)


_WORDS = {
    "BYTES": "the same to the byte",
    "LEGAL": "another, but legal",
    "NONE": "wrong",
}
