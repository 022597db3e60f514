"""`parley conform`: whether a dispatcher or a server speaks the protocol."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from parley_server.cli.run import CommandAfterDashes
from parley_server.errors import InputError, OutputError, UsageError, did_you_mean, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from parley_conformance.case import Case
    from parley_conformance.reports.model import Report
    from parley_conformance.runner import Result

EXIT_STATUS = (
    "Exit status: 0 conformant; 1 not (with --strict, a SHOULD missed is enough; so is a case of "
    "--expected-failures that passes); 2 the kit could not judge: wrong usage, a command that "
    "cannot be started or never speaks, or a fault of the kit's own; 130 interrupted."
)

conform_app = typer.Typer(
    name="conform",
    help="Find out whether a dispatcher or a server speaks the protocol.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

CaseGlobs = Annotated[
    list[str] | None,
    typer.Option("--case", metavar="GLOB", help="Only cases such as SEQ-*; may be repeated."),
]
Profiles = Annotated[
    list[str] | None, typer.Option("--profile", help="Only cases of this profile; may be repeated.")
]
Strict = Annotated[bool, typer.Option("--strict", help="A SHOULD that is missed counts as well.")]
Seed = Annotated[int, typer.Option(min=0, help="For the program's random choices.")]
Expected = Annotated[
    Path | None,
    typer.Option(
        "--expected-failures",
        metavar="FILE",
        help="Ids of cases that fail, one a line; one that passes is an error.",
    ),
]
Trace = Annotated[bool, typer.Option("--trace", help="Show each message, on standard error.")]
Workers = Annotated[
    int, typer.Option("--workers", min=0, help="Dialogues at a time; 0 finds out by itself.")
]
PatienceOption = Annotated[
    float,
    typer.Option("--patience", min=0.1, help="Seconds to wait for each message of the program."),
]
JsonOut = Annotated[Path | None, typer.Option("--json", help="Write the report as JSON.")]
JunitOut = Annotated[Path | None, typer.Option("--junit", help="Write it as JUnit XML.")]
HtmlOut = Annotated[Path | None, typer.Option("--html", help="Write it as one page.")]
BadgeOut = Annotated[
    Path | None,
    typer.Option("--badge", help="Write a badge: FILE.svg, or FILE.json for a badge service."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only what failed, and the result.")]


def dispatcher(
    ctx: typer.Context,
    case: CaseGlobs = None,
    profile: Profiles = None,
    strict: Strict = False,
    seed: Seed = 0,
    expected_failures: Expected = None,
    trace: Trace = False,
    workers: Workers = 0,
    patience: PatienceOption = 5.0,
    json_file: JsonOut = None,
    junit: JunitOut = None,
    html: HtmlOut = None,
    badge: BadgeOut = None,
    quiet: Quiet = False,
) -> None:
    """Play server to a dispatcher and judge what it says.

    The dispatcher is the command behind `--`. It is started anew for each dialogue: {endpoint} in
    its arguments is replaced by where to connect, and PARLEY_ENDPOINT is set to the same.
    """
    from parley_conformance.dispatchers import DISPATCHER_CASES  # noqa: PLC0415 - not for --help
    from parley_conformance.process import Command, Warden  # noqa: PLC0415
    from parley_conformance.runner import judge_dispatcher  # noqa: PLC0415

    def judge(cases: Sequence[Case], options: Any, report: Any) -> list[Result]:
        with Warden() as warden:
            return judge_dispatcher(Command(_command(ctx), warden), cases, options, report)

    _run(
        "dispatcher",
        judge,
        _chosen(DISPATCHER_CASES, case, profile),
        _Wishes(_command(ctx), strict, expected_failures, quiet, (json_file, junit, html, badge)),
        _options(seed, workers, patience, trace=trace),
    )


def server(
    ctx: typer.Context,
    case: CaseGlobs = None,
    profile: Profiles = None,
    strict: Strict = False,
    seed: Seed = 0,
    expected_failures: Expected = None,
    trace: Trace = False,
    workers: Workers = 0,
    patience: PatienceOption = 5.0,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start the server anew for each dialogue.")
    ] = False,
    json_file: JsonOut = None,
    junit: JunitOut = None,
    html: HtmlOut = None,
    badge: BadgeOut = None,
    quiet: Quiet = False,
) -> None:
    """Play dispatcher to a server and judge what it says.

    The server is the command behind `--`, in whose arguments are replaced: {endpoint} by where to
    listen, {scenarios} by the files of the scenarios that it is to offer, {scratch} by an empty
    directory for whatever it leaves behind. `parley conform scenarios` shows the scenarios.
    """
    import tempfile  # noqa: PLC0415 - not for --help

    from parley_conformance.process import Command, Warden  # noqa: PLC0415
    from parley_conformance.runner import judge_server  # noqa: PLC0415
    from parley_conformance.servers import SERVER_CASES  # noqa: PLC0415

    def judge(cases: Sequence[Case], options: Any, report: Any) -> list[Result]:
        with Warden() as warden, tempfile.TemporaryDirectory(prefix="parley-conform-") as scratch:
            program = Command(_command(ctx), warden)
            return judge_server(program, cases, options, Path(scratch), report)

    _run(
        "server",
        judge,
        _chosen(SERVER_CASES, case, profile),
        _Wishes(_command(ctx), strict, expected_failures, quiet, (json_file, junit, html, badge)),
        _options(seed, workers, patience, trace=trace, fresh=fresh),
    )


def smoke(
    ctx: typer.Context,
    side: Annotated[str, typer.Argument(help="dispatcher or server.")] = "dispatcher",
    patience: PatienceOption = 5.0,
) -> None:
    """Hold one plain dialogue with the command behind `--`: does it speak the protocol at all?"""
    match side:
        case "dispatcher":
            dispatcher(ctx, case=["LIFE-COMES-THROUGH"], patience=patience)
        case "server":
            server(ctx, case=["LIFE-COMPLETED"], patience=patience)
        case _:
            raise UsageError(f"{side}: there are cases for a dispatcher and for a server")


def scenarios(
    directory: Annotated[Path, typer.Argument(help="Where to write them.")],
) -> None:
    """Write the scenarios that a server under test is to offer, as TOML, SWF and JSON."""
    from parley_conformance.servers.settings import write_scenarios  # noqa: PLC0415

    try:
        directory.mkdir(parents=True, exist_ok=True)
        paths = write_scenarios(directory)
    except OSError as error:
        raise OutputError(f"{directory}: cannot be written: {error.strerror or error}") from None
    for path in paths:
        typer.echo(path)


class _Wishes:
    """What the user wants beside the judgement."""

    def __init__(
        self,
        command: list[str],
        strict: bool,
        expected: Path | None,
        quiet: bool,
        files: tuple[Path | None, Path | None, Path | None, Path | None],
    ) -> None:
        self.command = command
        self.strict = strict
        self.expected = expected
        self.quiet = quiet
        self.json, self.junit, self.html, self.badge = files


def _command(ctx: typer.Context) -> list[str]:
    """Return the command behind `--`.

    Raises:
        UsageError: There is none.
    """
    command: list[str] | None = ctx.meta.get("command")
    if not command:
        raise UsageError("what is to be judged? name its command behind --")
    return command


def _options(seed: int, workers: int, patience: float, *, trace: bool, **more: Any) -> Any:
    from parley_conformance.runner import Options  # noqa: PLC0415 - not for --help
    from parley_conformance.stage import Patience  # noqa: PLC0415

    return Options(
        seed=seed,
        workers=workers,
        patience=Patience(hello=max(10.0, patience), message=patience),
        trace=_trace_line if trace else None,
        **more,
    )


def _trace_line(scene: str, line: Any) -> None:
    from parley_conformance.reports.model import message_text  # noqa: PLC0415 - not for --help

    arrow = {"program": "<", "kit": ">", "note": "#"}[line.sender]
    text = one_line(line.text or message_text(line))
    print(f"{scene} {line.at_ms / 1000:8.3f} {arrow} {text}", file=sys.stderr)


def _chosen(
    cases: Sequence[Case], globs: list[str] | None, profiles: list[str] | None
) -> list[Case]:
    """Return the cases that are to be judged.

    Raises:
        UsageError: There is no such case or profile.
    """
    from parley_conformance.case import PROFILES, select  # noqa: PLC0415 - not for --help

    for name in profiles or ():
        if name not in PROFILES:
            raise UsageError(
                f"--profile {name}: there are {', '.join(PROFILES)}{did_you_mean(name, PROFILES)}"
            )
    for glob in globs or ():
        if not select(cases, globs=[glob]):
            hint = did_you_mean(glob.upper(), [case.id for case in cases])
            raise UsageError(f"--case {glob}: no case of this side is called so{hint}")
    chosen = select(cases, globs=globs or (), profiles=profiles or ())
    if not chosen:
        raise UsageError("no case of this side is left: --case and --profile exclude each other")
    return chosen


def _run(
    side: Literal["dispatcher", "server"],
    judge: Any,
    cases: Sequence[Case],
    wishes: _Wishes,
    options: Any,
) -> None:
    """Judge, tell, write the files, and end with the status that says what came of it."""
    from parley_conformance.process import NoProgram, require_command  # noqa: PLC0415
    from parley_conformance.reports.model import report_of  # noqa: PLC0415 - not for --help
    from parley_conformance.runner import NotJudged  # noqa: PLC0415

    # A kit that is asked to end closes its dialogues, and no program is left.
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    expected = _expected_in(wishes.expected, cases)
    began = time.monotonic()
    try:
        require_command(wishes.command)
        results = judge(cases, options, lambda result: _tell(result, expected, wishes.quiet))
    except NoProgram as error:
        raise UsageError(f"{error}{_remedy(wishes.command)}") from None
    except NotJudged as error:
        remedy = _remedy(wishes.command)
        raise UsageError(f"{wishes.command[0]!r} cannot be judged: {error}{remedy}") from None
    report = report_of(
        results,
        side=side,
        command=wishes.command,
        seed=options.seed,
        took_ms=round((time.monotonic() - began) * 1000),
        expected=expected,
    )
    _write(report, wishes)
    _conclude(report, expected, strict=wishes.strict)


def _remedy(command: Sequence[str]) -> str:
    """Return what is missing where a command stands, to stand behind saying that it cannot run."""
    from parley_server.host import remedies  # noqa: PLC0415 - where something is wrong

    if not command or Path(command[0]).exists():
        return ""
    if shutil.which(command[0]) is None:
        return remedies.for_absent(command[0])
    return remedies.for_failure(command, 1)


_COLOURS = {"PASS": "green", "FAIL": "red", "ERROR": "red", "NON_STRICT": "yellow"}

_SHOWN = {
    "PASS": "PASS",
    "FAIL": "FAIL",
    "ERROR": "ERROR",
    "NON_STRICT": "NON_STRICT",
    "NOT_APPLICABLE": "n/a",
}


def _tell(result: Result, expected: frozenset[str], quiet: bool) -> None:
    """Print one line for a case, and why where it is not well."""
    verdict = result.verdict.value
    well = verdict in {"PASS", "NOT_APPLICABLE"}
    if quiet and well:
        return
    mark = typer.style(f"{_SHOWN[verdict]:10}", fg=_COLOURS.get(verdict, "bright_black"))
    ending = result.ending.value if result.ending is not None else ""
    typer.echo(f"{mark} {result.case.id:22} {ending:8} {result.case.title}")
    if verdict == "NOT_APPLICABLE":
        typer.echo(f"{'':43} {one_line(result.finding.reason)}")
    elif not well:
        where = f" (line {result.finding.line})" if result.finding.line else ""
        hint = " (expected)" if result.case.id in expected else ""
        typer.echo(f"{'':11}{one_line(result.finding.reason)}{where}{hint}")
        for clause in result.case.requirements:
            typer.echo(f"{'':11}[{clause}]  parley conform explain {result.case.id}")


def _conclude(report: Report, expected: frozenset[str], *, strict: bool) -> None:
    """Print the table by profile and the result; exit.

    Raises:
        Exit: With 1 or 2, if not all is well.
    """
    names = ("PASS", "NON_STRICT", "FAIL", "ERROR", "NOT_APPLICABLE")
    typer.echo(f"\n{'profile':10}" + "".join(f"{_SHOWN[name]:>12}" for name in names))
    for profile, counts in report["profiles"].items():
        typer.echo(f"{profile:10}" + "".join(f"{counts.get(name, 0):>12}" for name in names))
    total = report["counts"]
    typer.echo(f"{'all':10}" + "".join(f"{total[name]:>12}" for name in names))
    passing = [
        case["id"]
        for case in report["cases"]
        if case["id"] in expected and case["verdict"] in {"PASS", "NOT_APPLICABLE"}
    ]
    for identity in passing:
        typer.echo(f"{identity} does not fail, though it was expected to: take it off the list")
    who = f"{report['program']['name']}: {report['took_ms'] / 1000:.1f} s"
    if total["ERROR"]:
        typer.echo(f"{who}: not judged: the kit could not judge {total['ERROR']} cases")
        raise typer.Exit(2)
    well = report["strict"] if strict else report["conformant"]
    typer.echo(f"{who}: {'conformant' if well and not passing else 'not conformant'}")
    if passing or not well:
        raise typer.Exit(1)


def _expected_in(path: Path | None, cases: Sequence[Case]) -> frozenset[str]:
    """Return the ids of the cases that are expected to fail.

    Raises:
        InputError: The file cannot be read, or names a case that there is not.
    """
    if path is None:
        return frozenset()
    known = {case.id for case in _all_cases()}
    found = set()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise InputError(f"{path}: cannot be read: {reason}") from None
    for number, line in enumerate(lines, 1):
        identity = line.partition("#")[0].strip()
        if identity and identity not in known:
            raise InputError(
                f"{path}: line {number}: there is no case {identity!r}"
                f"{did_you_mean(identity, known)}"
            )
        found.add(identity)
    return frozenset(found & {case.id for case in cases})


def _write(report: Report, wishes: _Wishes) -> None:
    """Write the files that were asked for.

    Raises:
        OutputError: One cannot be written.
    """
    from parley_conformance.reports import badge, junit, model  # noqa: PLC0415 - not for --help

    if wishes.json is not None:
        _put(wishes.json, model.as_json(report))
    if wishes.junit is not None:
        _put(wishes.junit, junit.as_junit(report))
    if wishes.html is not None:
        from parley_conformance.reports.html import as_page  # noqa: PLC0415 - jinja2 is heavy

        _put(wishes.html, as_page(report))
    if wishes.badge is not None:
        plain = wishes.badge.suffix == ".json"
        _put(wishes.badge, badge.as_endpoint(report) if plain else badge.as_svg(report))


def _put(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _all_cases() -> tuple[Case, ...]:
    from parley_conformance.cases import ALL_CASES  # noqa: PLC0415 - not for --help

    return ALL_CASES


def list_cases(
    side: Annotated[str | None, typer.Argument(help="dispatcher or server; without, both.")] = None,
    case: CaseGlobs = None,
    profile: Profiles = None,
) -> None:
    """List the cases, one a line: id, side, profile, level, requirements, title."""
    if side not in {None, "dispatcher", "server"}:
        raise UsageError(f"{side}: there are cases for a dispatcher and for a server")
    cases = [one for one in _all_cases() if side in {None, one.side}]
    for one in _chosen(cases, case, profile):
        needs = " ".join(one.requirements)
        typer.echo(f"{one.id}\t{one.side}\t{one.profile}\t{one.level}\t{needs}\t{one.title}")


def explain(
    identity: Annotated[str, typer.Argument(metavar="ID", help="A case, such as SEQ-RE.")],
) -> None:
    """Explain a case: the clauses, the dialogue, what is right, how to reproduce it alone."""
    from parley_conformance.clauses import clauses  # noqa: PLC0415 - not for --help

    cases = {case.id: case for case in _all_cases()}
    case = cases.get(identity.upper())
    if case is None:
        raise UsageError(f"there is no case {identity!r}{did_you_mean(identity.upper(), cases)}")
    typer.echo(f"{case.id}: {case.title}")
    typer.echo(f"For a {case.side}; profile {case.profile}; {case.level}.\n")
    for clause in (clauses()[name] for name in case.requirements):
        typer.echo(f"[{clause.id}] {clause.text} ({clause.page})")
    typer.echo("\nDialogue:")
    for scene in case.scenes:
        typer.echo(f"  {scene.name}: {scene.about}")
    typer.echo(f"\nWhat is right: {case.right}")
    breach = "FAIL" if case.must else "NON_STRICT: a SHOULD is missed"
    typer.echo(f"A breach is {breach}.\n\nAlone, with each message shown:")
    typer.echo(f"  parley conform {case.side} --case {case.id} --trace -- COMMAND")


def report(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILES", help="Reports, as --json has them.")
    ],
    html: Annotated[
        Path | None,
        typer.Option(help="Write a page: of the one report, or a matrix of several."),
    ] = None,
    junit: JunitOut = None,
    badge: BadgeOut = None,
) -> None:
    """Make a page, JUnit XML or a badge from reports; several make one matrix."""
    from parley_conformance.reports.model import NoReport, read_report  # noqa: PLC0415

    reports = []
    for path in files:
        try:
            reports.append(read_report(path.read_text(encoding="utf-8")))
        except NoReport as error:
            raise InputError(f"{path}: {error}") from None
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a text file"
            raise InputError(f"{path}: cannot be read: {reason}") from None
    if html is None and junit is None and badge is None:
        raise UsageError("what is to be made? --html FILE, --junit FILE or --badge FILE")
    if len(reports) > 1:
        if junit is not None or badge is not None:
            raise UsageError("--junit and --badge are of one report; several make a matrix")
        from parley_conformance.reports.html import as_matrix  # noqa: PLC0415 - jinja2 is heavy

        _put(html or Path(), as_matrix(reports))
        return
    wishes = _Wishes([], False, None, False, (None, junit, html, badge))
    _write(reports[0], wishes)


COMMANDS: Mapping[str, tuple[Any, type[TyperCommand] | None]] = {
    "dispatcher": (dispatcher, CommandAfterDashes),
    "server": (server, CommandAfterDashes),
    "smoke": (smoke, CommandAfterDashes),
    "list": (list_cases, None),
    "scenarios": (scenarios, None),
    "explain": (explain, None),
    "report": (report, None),
}
