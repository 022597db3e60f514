"""The report: one page that needs nothing else, says what was run, and escapes what it is told."""

from __future__ import annotations

import base64
import html.parser
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from parley_server import run
from parley_server.errors import OutputError
from parley_server.results.plots import PLOTS
from parley_server.results.report import report, write_report
from parley_server.results.run_directory import open_run, open_runs
from parley_server.results.sample import Window
from tests.support import PROJECT, summary_of, write_swf

VOID = {"meta", "img", "br", "link"}


class Page(html.parser.HTMLParser):
    """A page taken apart: texts of cells by row, what it refers to, and whether tags match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.references, self.alerts = [], [], [], []
        self.images = {}
        self._cell = self._alert = None
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        told = dict(attrs)
        self.references += [told[key] for key in ("src", "href", "action", "data") if key in told]
        if tag == "img":
            self.images[told["alt"]] = told["src"]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self._cell = ""
        if told.get("role") == "alert":
            self._alert = ""

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag in {"td", "th"}:
            self.rows[-1].append(self._cell.strip())
            self._cell = None
        if tag == "p" and self._alert is not None:
            self.alerts.append(self._alert)
            self._alert = None

    def handle_data(self, text):
        if self._cell is not None:
            self._cell += text
        if self._alert is not None:
            self._alert += text

    def row(self, first):
        """Return the cells after the one that says *first*."""
        return next(row[1:] for row in self.rows if row and row[0] == first)


# Each plot takes a second; all of them are in the longer tests.
SOME = ("gantt", "wait-cdf", "differences")


@pytest.fixture(scope="module")
def text(runs):
    return report(open_runs(runs), plots=SOME)


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


# ---------------------------------------------------------------------- what it says


def test_a_report_fetches_nothing(page, text):
    assert page.references
    assert all(each.startswith(("#", "data:image/svg+xml;base64,")) for each in page.references)
    assert "<script" not in text
    assert "default-src 'none'" in text
    for image in page.images.values():
        picture = base64.b64decode(image.partition(",")[2]).decode()
        inner = ET.fromstring(picture)
        assert inner.tag.endswith("svg")
        outer = re.findall(r'(?:href|src)="([^"#][^"]*)"', picture)
        assert all(each.startswith("data:") for each in outer)


def test_a_report_has_the_plots_that_are_wanted(page):
    assert [plot.shows for plot in PLOTS if plot.name in SOME] == list(page.images)


def test_a_report_says_what_was_run(page, runs):
    summary = summary_of(runs[0])

    assert page.row("decided by") == [
        "fifo, first-fit",
        "easy, first-fit",
        "sjf, first-fit",
    ]
    assert page.row("SHA-256") == [summary["inputs"][0]["sha256"]] * 3
    assert page.row("scenario digest") == [summary["scenario"]["digest"]] * 3
    assert page.row("machine") == ["8 nodes, 8 core"] * 3
    assert page.row("lines dropped") == ["none"] * 3
    assert page.row("on_overrun") == ["run"] * 3
    assert not page.alerts


def test_a_report_has_the_numbers_of_the_summaries(page, runs):
    for metric in ("Wait", "Slowdown", "Bounded slowdown"):
        cells = next(row for row in page.rows if row[:1] == [metric] and "mean" in row)
        for cell, directory in zip(cells[3:], runs, strict=True):
            stated = summary_of(directory)[metric.lower().replace(" ", "_")]["mean"]
            assert float(cell.replace(",", "")) == pytest.approx(stated, rel=1e-4)


def test_a_report_compares_with_the_first_run(page):
    compared = [row for row in page.rows if row[:1] == ["Wait (s)"]]

    assert len(compared) == 2
    assert all(" to " in row[5] for row in compared)


def test_the_same_runs_give_the_same_page(runs, text):
    assert report(open_runs(runs), plots=SOME) == text


def test_what_traces_and_users_call_things_is_text(tmp_path):
    path = write_swf(tmp_path / "<b>&trace.swf", [(0, 5, 1), (3, 5, 9)])
    run(swf=path, nodes=2, out=tmp_path / "out")
    label = "<script>alert('\"')</script>"

    text = report([open_run(tmp_path / "out", label=label)], plots=["wait-box"], title="<i>")
    assert "<script" not in text
    page = Page(text)
    assert page.row("scenario") == ["<b>&trace"]
    assert ["", label] in page.rows


def test_runs_that_do_not_belong_together_are_told(runs, shared_nodes):
    page = Page(report([open_run(runs[0]), open_run(shared_nodes)], plots=[]))

    assert any("not the same workload" in alert for alert in page.alerts)
    assert any("not the same machine" in alert for alert in page.alerts)
    assert any("not the same rules" in alert for alert in page.alerts)


def test_a_run_that_broke_off_is_told(runs, tmp_path):
    copy = shutil.copytree(runs[0], tmp_path / "copy")
    (copy / "summary.json").unlink()
    content = (copy / "jobs.csv").read_bytes()
    (copy / "jobs.csv").write_bytes(content[: len(content) // 2])

    page = Page(report([open_run(copy, partial=True)], plots=["timeline"]))
    assert any("read in part only" in alert for alert in page.alerts)


def test_amounts_that_the_rows_do_not_hold_are_told(tmp_path):
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text(
        "".join(
            f'{{"id": "{name}", "submit": {submit}, "runtime": 10, '
            f'"request": [{{"chunks": 1, "per_chunk": {{"core": {cores}}}}}]}}\n'
            for name, submit, cores in (("a", 0, 3), ("b", 5, 1))
        )
    )
    run(workload=jobs, nodes=2, per_node={"core": 4}, request="processors", out=tmp_path / "out")

    page = Page(report([open_run(tmp_path / "out")], plots=[]))
    assert any("other amounts of core than the rules" in alert for alert in page.alerts)


def test_a_report_is_of_what_is_judged(runs):
    text = report([open_run(runs[0])], window=Window("10%", "drain"), plots=[])

    assert "without warm-up of 10% and cool-down of drain" in text


def test_a_page_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(OutputError, match="cannot be written"):
        write_report("", tmp_path / "file" / "page.html")


def test_a_full_disk_is_told_and_a_device_stays_one():
    with pytest.raises(OutputError, match="/dev/full: cannot be written: No space left"):
        write_report("a page", Path("/dev/full"))

    assert Path("/dev/full").is_char_device()


# ---------------------------------------------------------------------- at length


def browser():
    """Return a browser to look at pages with; without one the test is skipped."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for path in map(shutil.which, names) if path), None)
    if found is None:
        pytest.skip("no Chromium is installed")
    return found


@pytest.mark.long
def test_a_browser_shows_the_page_without_asking_anybody(runs, tmp_path):
    text = report(open_runs(runs))
    assert list(Page(text).images) == [plot.shows for plot in PLOTS]
    (tmp_path / "page.html").write_text(text)
    # What the page looks like to a reader: the sizes at which pictures were really decoded.
    probe = """<script>addEventListener('load', () => {
        const pictures = [...document.images].map(i => `${i.complete}:${i.naturalWidth > 100}`);
        document.title = `${pictures.length} ${new Set(pictures).size} ${pictures[0]} `
            + `${document.documentElement.scrollWidth <= innerWidth} `
            + `${performance.getEntriesByType('resource').filter(
                e => !e.name.startsWith('data:')).length}`;
    });</script>"""
    probed = text.replace("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';")
    assert probed != text
    (tmp_path / "probed.html").write_text(probed.replace("</body>", f"{probe}</body>"))
    command = [
        *(browser(), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"),
        *(f"--user-data-dir={tmp_path}/profile", "--window-size=1300,2000"),
    ]

    shown = subprocess.run(
        [*command, "--dump-dom", f"file://{tmp_path}/probed.html"],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    (title,) = re.findall("<title>(.*)</title>", shown.stdout)
    assert title == f"{len(PLOTS)} 1 true:true true 0"
    plain = subprocess.run(
        [*command, f"--screenshot={tmp_path}/page.png", f"file://{tmp_path}/page.html"],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    # A console message would be a part of the page that its own policy forbids.
    assert "CONSOLE" not in plain.stderr
    from matplotlib.image import imread

    assert imread(tmp_path / "page.png").std() > 0.05


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_million_jobs_are_reported_within_a_minute_and_a_gigabyte(tmp_path):
    generator = PROJECT / "tests" / "benchmarks" / "synthetic.py"
    subprocess.run([sys.executable, generator, tmp_path / "run", "1000000"], check=True)

    command = [Path(sys.executable).parent / "parley", "report", tmp_path / "run"]
    child = subprocess.Popen([*command, "--out", tmp_path / "report.html"])
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    # Processor time, as the machine of a test may be busy; it is one thread.
    assert usage.ru_utime + usage.ru_stime < 60
    assert usage.ru_maxrss * 1024 < 1e9
