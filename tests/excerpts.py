"""One small workload in every format that can be read; equal schedules must come of it."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


class Row(NamedTuple):
    """One job, times in seconds since `START`; no walltime is -1."""

    name: int
    submit: int
    runtime: int
    processors: int
    walltime: int = -1
    user: str = "7"


START = 1_700_000_000
"""Unix time of the excerpts' instant zero; accounting knows no other clock."""

ROWS = (
    Row(1, 0, 50, 3, 60),
    Row(2, 0, 100, 2, 120),
    Row(3, 10, 30, 4, 60),
    Row(4, 10, 0, 1, 60, "8"),
    Row(5, 90, 200, 2, 240, "8"),
    Row(6, 95, 20, 1),
    Row(7, 3600, 7, 4, 60),
)

SECRETS = (777777, 888888, 999999, 666666)
"""What is only known afterwards, in every format that has a place for it."""


def swf(rows: Sequence[Row] = ROWS, *, start: int = 0) -> str:
    """Return the archive's format."""
    wait, cpu, used, _ = SECRETS
    return "".join(
        f"{r.name} {start + r.submit} {wait} {r.runtime} -1 {cpu} {used} {r.processors} "
        f"{r.walltime} -1 1 {r.user} -1 -1 -1 -1 -1 -1\n"
        for r in rows
    )


def tabbed(rows: Sequence[Row] = ROWS) -> str:
    """Return the dialect of 19 fields between tabs, in which what is missing is empty."""
    lines = (line.split() for line in swf(rows).splitlines())
    return "".join(
        "\t".join("" if field == "-1" else field for field in [*line, "secret"]) + "\n"
        for line in lines
    )


def with_nodes(rows: Sequence[Row] = ROWS) -> str:
    """Return the dialect of 21 fields, with the nodes used."""
    return "".join(
        f"{line} {{{SECRETS[3]},{SECRETS[3]}}} q_day 1:ppn=1\n" for line in swf(rows).splitlines()
    )


def batsim(rows: Sequence[Row] = ROWS) -> str:
    """Return Batsim's document, jobs before profiles and not in order, as its tools write them."""
    jobs = [
        {
            "id": f"{r.name}",
            "subtime": r.submit,
            "user": r.user,
            "res": r.processors,
            "profile": f"p{r.runtime}",
            "finish_time": SECRETS[0],
            "priority": 5,
        }
        | ({} if r.walltime < 0 else {"walltime": r.walltime})
        for r in reversed(rows)
    ]
    # Of one instant the document's order counts; reversed above, so reversed here.
    jobs.sort(key=lambda job: (-int(str(job["subtime"])), int(str(job["id"]))))
    profiles = {f"p{r.runtime}": {"type": "delay", "delay": r.runtime} for r in rows}
    return json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles})


def clock(seconds: int) -> str:
    """Return a duration as Slurm has it."""
    days, rest = divmod(seconds, 86_400)
    text = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{text}" if days else text


def sacct(rows: Sequence[Row] = ROWS) -> str:
    """Return accounting, with lines of steps, as `sacct --parsable2` prints it."""
    from datetime import UTC, datetime

    lines = ["JobID|User|Submit|Start|ElapsedRaw|Timelimit|ReqCPUS|AllocCPUS|State|MaxRSS|QOS"]
    for r in rows:
        moment = datetime.fromtimestamp(START + r.submit, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        limit = "UNLIMITED" if r.walltime < 0 else clock(r.walltime)
        lines.append(
            f"{r.name}|{r.user}|{moment}|{moment}|{r.runtime}|{limit}|{r.processors}|"
            f"{r.processors}|COMPLETED||normal"
        )
        lines.append(f"{r.name}.batch||{moment}|{moment}|{r.runtime}||1|1|COMPLETED|{SECRETS[2]}K|")
    return "\n".join(lines) + "\n"


def jsonl(rows: Sequence[Row] = ROWS) -> str:
    """Return Parley's own lines."""
    lines = [json.dumps({"parley": "workload", "version": 1, "header": {"Computer": "toy"}})]
    for r in rows:
        values = {"id": r.name, "submit": r.submit, "runtime": r.runtime, "user": r.user}
        values |= {"processors": r.processors, "wait": SECRETS[0], "used_memory": SECRETS[2]}
        values |= {"attributes": {"project": "p1"}}
        lines.append(json.dumps(values | ({} if r.walltime < 0 else {"walltime": r.walltime})))
    return "\n".join(lines) + "\n"


COLUMNS = {
    "id": "job",
    "submit": "when",
    "runtime": "took",
    "processors": "n",
    "walltime": "limit",
    "user": "who",
    "wait": "waited",
}
ATTRIBUTES = ["project"]


def csv(rows: Sequence[Row] = ROWS) -> str:
    """Return a table whose columns have names of their own."""
    lines = ["job,when,took,n,limit,who,waited,project,unnamed"]
    lines += [
        f"{r.name},{r.submit},{r.runtime},{r.processors},{'' if r.walltime < 0 else r.walltime},"
        f'{r.user},{SECRETS[0]},"p, 1",{SECRETS[1]}'
        for r in rows
    ]
    return "\n".join(lines) + "\n"


def parquet(path: Path, rows: Sequence[Row] = ROWS) -> Path:
    """Write the table of `csv` as Parquet."""
    import pyarrow as pa
    from pyarrow import parquet as file

    table = {
        "job": [r.name for r in rows],
        "when": [float(r.submit) for r in rows],
        "took": [r.runtime for r in rows],
        "n": [r.processors for r in rows],
        "limit": [None if r.walltime < 0 else r.walltime for r in rows],
        "who": [r.user for r in rows],
        "waited": [SECRETS[0]] * len(rows),
        "project": ["p1"] * len(rows),
        "unnamed": [SECRETS[1]] * len(rows),
    }
    file.write_table(pa.table(table), path)
    return path


def own(rows: Sequence[Row] = ROWS) -> str:
    """Return a reader of a user's own."""
    return (
        f"ROWS = {[tuple(r) for r in rows]!r}\n\n\n"
        "def read(path=None):\n"
        "    for name, submit, runtime, processors, walltime, user in ROWS:\n"
        "        yield {'id': name, 'submit': submit, 'runtime': runtime, 'user': user,\n"
        "               'processors': processors, 'walltime': walltime, "
        f"'wait': {SECRETS[0]}}}\n\n\n"
        "read.rewindable = True\n"
    )


TEXTS: dict[str, tuple[str, Callable[..., str]]] = {
    "swf": ("t.swf", swf),
    "swf, tabs": ("tabs.swf", tabbed),
    "swf, nodes": ("nodes.swf", with_nodes),
    "batsim": ("batsim.json", batsim),
    "sacct": ("sacct.txt", sacct),
    "jsonl": ("t.jsonl", jsonl),
    "csv": ("t.csv", csv),
    "own": ("reader.py", own),
}
"""How each format's file is called, and who writes it."""

FORMATS = (*TEXTS, "parquet")

STARTS = {"sacct": START}
"""Formats whose clock begins elsewhere."""

COMPRESSIONS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


def flags(folder: Path, kind: str, rows: Sequence[Row] = ROWS) -> dict[str, object]:
    """Write the workload in a format; return the arguments of `run` that read it."""
    settings: dict[str, object] = {}
    if kind == "parquet":
        settings["workload"] = parquet(folder / "t.parquet", rows)
    else:
        name, write = TEXTS[kind]
        path = folder / name
        path.write_text(write(rows))
        if kind == "own":
            return {"format": f"{path}:read"}
        settings["workload"] = path
    if kind in ("csv", "parquet"):
        settings |= {"columns": COLUMNS, "attributes": ATTRIBUTES}
    if kind in STARTS:
        settings["origin"] = f"{STARTS[kind]}s"
    return settings
