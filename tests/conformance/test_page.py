"""The page in a real browser: what is legible, what unfolds, and that nothing is fetched."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.conformance.test_command import SOME, WRONG, dispatcher

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
]

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
    *("--window-size=1200,1600", "--virtual-time-budget=3000"),
    # What the browser wants to know for itself is no affair of the page's.
    *("--disable-background-networking", "--disable-component-update", "--no-first-run"),
    "--disable-features=NetworkTimeServiceQuerying,OptimizationHints,MediaRouter",
    # Whatever the page fetches would go to this machine, and be noticed there.
    "--host-resolver-rules=MAP * 127.0.0.1:{port}",
)

LOOK = """<script>
window.addEventListener("load", () => {
  const seen = {};
  const shown = (element) => element.checkVisibility({visibilityProperty: true});
  const one = document.getElementById("SEQ-RE");
  seen.outcome = document.getElementById("outcome").innerText;
  seen.verdicts = [...document.querySelectorAll(".verdict")].map((v) => [v.innerText, shown(v)]);
  const mark = () => one.querySelector("tr.offending");
  seen.before = shown(mark());
  one.querySelector("summary").click();
  seen.after = shown(mark());
  seen.marked = mark().innerText;
  const ink = (element) => getComputedStyle(element).color;
  const ground = getComputedStyle(document.body).backgroundColor;
  seen.colours = [...document.querySelectorAll(".verdict")].map((v) => [ink(v), ground]);
  seen.fetched = performance.getEntriesByType("resource").map((entry) => entry.name);
  const told = document.createElement("pre");
  told.id = "seen";
  told.textContent = JSON.stringify(seen);
  document.body.append(told);
});
</script>"""


class _Trap(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.caught.append(self.path)
        self.send_error(404)

    def log_message(self, *_):
        pass


@pytest.fixture
def trap():
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Trap)
    server.caught = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "report.html"
    dispatcher(*SOME, "--html", path, command=WRONG)
    return path


def browse(page, trap, profile, *more):
    port = trap.server_address[1]
    flags = [flag.replace("{port}", str(port)) for flag in FLAGS]
    return subprocess.run(
        [CHROMIUM, *flags, f"--user-data-dir={profile}", *more, page.as_uri()],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def luminance(colour):
    parts = [int(part) / 255 for part in colour.strip("rgb()").split(",")[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_verdicts_are_legible_and_a_failed_case_unfolds_to_its_dialogue(page, trap, tmp_path):
    watched = tmp_path / "watched.html"
    watched.write_text(page.read_text().replace("</head>", LOOK + "</head>"))
    done = browse(watched, trap, tmp_path / "profile", "--dump-dom")
    dom = done.stdout
    assert 'id="seen"' in dom, done.stderr[-2000:]
    seen = json.loads(dom.split('id="seen">')[1].split("</pre>")[0].replace("&gt;", ">"))

    assert seen["outcome"] == "not conformant"
    assert ["fail", True] in seen["verdicts"]
    assert ["pass", True] in seen["verdicts"]
    assert all(shown for _, shown in seen["verdicts"])
    assert (seen["before"], seen["after"]) == (False, True)
    assert "re of" in seen["marked"]
    assert all(contrast(*pair) >= 4.5 for pair in seen["colours"])
    assert seen["fetched"] == []


def test_nothing_is_fetched_from_outside(page, trap, tmp_path):
    picture = tmp_path / "page.png"
    with contextlib.suppress(subprocess.TimeoutExpired):
        browse(page, trap, tmp_path / "profile", f"--screenshot={picture}")

    assert picture.stat().st_size > 10_000
    assert [path for path in trap.caught if "favicon" not in path] == []


def test_the_trap_catches_what_a_page_fetches(trap, tmp_path):
    page = tmp_path / "nosy.html"
    page.write_text('<img src="http://somewhere.example/picture.png">')
    browse(page, trap, tmp_path / "profile", "--dump-dom")

    assert "/picture.png" in trap.caught
