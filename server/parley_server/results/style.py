"""How every plot looks: one set of sizes, colours, hatches and line styles.

Colours are those of Okabe and Ito (Color Universal Design, 2008), which people with any kind of
colour vision can tell apart; each goes with a line style, a marker and a hatch of its own, so that
a plot printed in grey says the same.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, cast

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from parley_server.results.replacing import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


SIZE = (9.0, 4.8)
"""Inches; what is drawn for many runs grows in height."""

DOTS = 150
"""Per inch."""

FORMATS = ("png", "svg")

BLACK, GREY, FAINT = "#000000", "#555555", "#d9d9d9"


@dataclass(frozen=True, slots=True)
class Pen:
    """How one run looks beside others.

    Attributes:
        colour: Of Okabe and Ito.
        line: A line style, as matplotlib has them.
        marker: A mark, as matplotlib has them.
        hatch: What fills areas, beside a lighter colour.
    """

    colour: str
    line: Any
    marker: str
    hatch: str


_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_LINES = (
    "-",
    "--",
    "-.",
    ":",
    (0, (5, 1, 1, 1, 1, 1)),
    (0, (8, 2)),
    (0, (1, 3)),
    (0, (3, 1, 1, 1)),
)
_MARKERS = "osD^vPX*"
_HATCHES = ("", "////", "....", "\\\\\\\\", "xx", "--", "++", "oo")


def pen(number: int) -> Pen:
    """Return how the run of a number looks; after fifty-six runs two look alike."""
    return Pen(
        _COLOURS[number % len(_COLOURS)],
        _LINES[number % len(_LINES)],
        _MARKERS[number % len(_MARKERS)],
        _HATCHES[number % len(_HATCHES)],
    )


SETTINGS: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.4,
    "hatch.linewidth": 0.6,
    "figure.dpi": DOTS,
    "savefig.dpi": DOTS,
    "path.simplify": True,
    "agg.path.chunksize": 20_000,
    # The same input gives the same bytes.
    "svg.hashsalt": "parley",
    "svg.fonttype": "path",
}


@contextmanager
def drawing() -> Iterator[None]:
    """Let matplotlib draw in our style for a while, whatever the user's is."""
    with rc_context():
        from matplotlib import rcdefaults, rcParams  # noqa: PLC0415 - only inside of the context

        rcdefaults()
        rcParams.update(cast("Any", SETTINGS))
        yield


def figure(*, width: float = SIZE[0], height: float = SIZE[1]) -> Figure:
    """Return an empty figure that nothing else knows of.

    Args:
        width: Inches.
        height: Inches.
    """
    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made


def save(made: Figure, path: Path) -> None:
    """Write a figure; its ending tells the format. The same figure gives the same bytes.

    Raises:
        OutputError: It cannot be written.
    """
    with replacing(path) as temporary, temporary.open("wb") as file:
        write_figure(made, file, path.suffix.removeprefix("."))


_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": "parley"},
    "pdf": {"CreationDate": None, "Creator": "parley", "Producer": None},
}


def write_figure(made: Figure, file: IO[bytes], kind: str) -> None:
    """Write a figure as `png`, `svg` or `pdf`, without the date and the version of anything."""
    with drawing():
        made.savefig(file, format=kind, metadata=_METADATA.get(kind))
