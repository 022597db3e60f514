"""A run's tables as Parquet, with the extra `parquet`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley_server.errors import InputError, UsageError
from parley_server.results.replacing import replacing

if TYPE_CHECKING:
    from pathlib import Path

    from parley_server.results.run_directory import RunDirectory

_TEXTS = (
    *("job_id", "workload_name", "profile", "final_state", "allocated_resources", "metadata"),
    *("user", "group", "queue", "partition", "walltime_source", "allocation", "consumed_energy"),
)
_WHOLE = (
    *("requested_number_of_resources", "success", "attempt", "last", "queue_length", "running"),
    *("events", "requests", "decisions", "rejected", "request", "dispatcher_us", "server_us"),
    *("wire_us", "memory_bytes"),
)


def write_parquet(run: RunDirectory, directory: Path) -> list[Path]:
    """Write `jobs.parquet`, `decisions.parquet` and `timing.parquet`, with the columns of the CSV.

    Times are doubles in seconds, counts are whole numbers, what is empty is null.

    Raises:
        InputError: The run's files cannot be read.
        OutputError: A file cannot be written.
        UsageError: pyarrow is not installed.
    """
    try:
        from pyarrow import ArrowException, csv  # noqa: PLC0415 - an extra
        from pyarrow import parquet as files  # noqa: PLC0415
    except ImportError:
        raise UsageError("Parquet needs pyarrow: pip install 'parley-sim[parquet]'") from None
    # Whether the rows are whole is found out before pyarrow sees them.
    _ = run.jobs
    written = []
    for source in (run.files.jobs, run.files.decisions, run.files.timing):
        path = directory / f"{source.stem}.parquet"
        try:
            with (
                replacing(path) as temporary,
                csv.open_csv(source, convert_options=_options(source, csv)) as reader,
                files.ParquetWriter(temporary, reader.schema, compression="zstd") as writer,
            ):
                for batch in reader:
                    writer.write_batch(batch)
        except ArrowException as error:
            raise InputError(f"{source}: {error}") from None
        written.append(path)
    return written


def _options(source: Path, csv: Any) -> Any:
    """Return the type of each column: guessed ones would depend on the rows."""
    from pyarrow import float64, int64, string  # noqa: PLC0415 - an extra

    with source.open(encoding="utf-8") as file:
        names = file.readline().rstrip("\n").split(",")
    types = {
        name: string() if name in _TEXTS else int64() if name in _WHOLE else float64()
        for name in names
    }
    return csv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True)
