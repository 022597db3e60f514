"""The command `parley`: its commands, and how each ending becomes an exit status."""

from __future__ import annotations

import functools
import os
import sys
import traceback
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parley_server.cli.conform import COMMANDS as CONFORM_COMMANDS
from parley_server.cli.conform import EXIT_STATUS as CONFORM_EXIT_STATUS
from parley_server.cli.conform import conform_app
from parley_server.cli.dispatch import dispatch
from parley_server.cli.experiment import EXPERIMENT_COMMANDS, experiment_app
from parley_server.cli.keys import keys
from parley_server.cli.platform import info as platform_info
from parley_server.cli.platform import platform_app
from parley_server.cli.policies import policies
from parley_server.cli.replay import check, replay
from parley_server.cli.results import compare, export, metrics, plot, report
from parley_server.cli.run import CommandAfterDashes, run
from parley_server.cli.schema import schema
from parley_server.cli.serve import serve
from parley_server.cli.watch import watch
from parley_server.cli.workload import WORKLOAD_COMMANDS, workload_app
from parley_server.errors import ExitStatus, ParleyError, one_line
from parley_server.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

EXIT_STATUS = (
    "Exit status: 0 the run is complete; 1 the run failed (the dispatcher was lost, late or "
    "lying, or the run stalled, or results could not be written); 2 wrong usage or unusable "
    "input; 3 a fault of Parley's own; 130 interrupted. Rows written so far are whole, and "
    "summary.json says how a run ended."
)


def _ending(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command end in one clear line and its exit status, whatever it raises."""

    @functools.wraps(command)
    def wrapped(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except typer.Exit:
            raise
        except KeyboardInterrupt:
            _tell("interrupted", ExitStatus.INTERRUPTED)
        except ParleyError as error:
            _tell(str(error), error.exit_status)
        except BrokenPipeError:
            # Whoever read our output has left; there is nobody to tell.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(ExitStatus.FAILED) from None
        except Exception as error:  # noqa: BLE001 - a traceback at a user is a defect
            if os.environ.get("PARLEY_TRACEBACK"):
                traceback.print_exc()
            _tell(
                f"a fault of our own, please report it: {type(error).__name__}: {error} "
                "(PARLEY_TRACEBACK=1 shows where)",
                ExitStatus.INTERNAL,
            )

    return wrapped


def _tell(message: str, status: ExitStatus) -> None:
    print(f"parley: {one_line(message)}", file=sys.stderr)
    raise typer.Exit(status) from None


app = typer.Typer(
    name="parley",
    help="Simulate HPC job scheduling; a dispatcher, in any language, decides.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command(cls=CommandAfterDashes, epilog=EXIT_STATUS)(_ending(run))
app.command(epilog=EXIT_STATUS)(_ending(serve))
app.command()(_ending(watch))
app.command()(_ending(dispatch))
app.command()(_ending(policies))
app.command()(_ending(schema))
app.command()(_ending(keys))
for look in (plot, report, compare, metrics, export):
    app.command(epilog=EXIT_STATUS)(_ending(look))
app.command(cls=CommandAfterDashes)(_ending(replay))
transcripts = typer.Typer(name="transcript", help="Recorded dialogues.", no_args_is_help=True)
transcripts.command("check")(_ending(check))
app.add_typer(transcripts)
for command in WORKLOAD_COMMANDS:
    workload_app.command(epilog=EXIT_STATUS)(_ending(command))
platform_app.command("info", epilog=EXIT_STATUS)(_ending(platform_info))
for experiment_command in EXPERIMENT_COMMANDS:
    experiment_app.command(epilog=EXIT_STATUS)(_ending(experiment_command))
app.add_typer(experiment_app)
app.add_typer(workload_app)
app.add_typer(platform_app)
for name, (command, kind) in CONFORM_COMMANDS.items():
    conform_app.command(name, cls=kind, epilog=CONFORM_EXIT_STATUS)(_ending(command))
app.add_typer(conform_app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"parley {__version__}")
        raise typer.Exit


@app.callback()
def _parley(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Show the version and leave.",
            is_eager=True,
            callback=_show_version,
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line and exit with its status."""
    # numpy's linear algebra, which nothing here asks for, else starts threads that wait busily.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    app()


if __name__ == "__main__":
    main()
