"""A dispatcher that was written from the specification alone, in another language."""

from __future__ import annotations

import shutil

import pytest

from tests.support import PROJECT, parley

FOLDER = PROJECT / "examples" / "from_the_text"

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not (FOLDER / "node_modules").is_dir(),
    reason="needs Node, and `npm install` in examples/from_the_text",
)


@pytest.mark.parametrize(
    ("scenario", "options"),
    [
        ("first.toml", ()),
        ("failing.toml", ("--policy", "fifo", "--on-disconnect", "fail")),
        ("failing.toml", ("--policy", "fifo", "--latency", "fixed:2h", "--on-disconnect", "fail")),
    ],
    ids=["first", "failing", "slow"],
)
def test_it_decides_as_the_policy_it_says_it_is(tmp_path, scenario, options):
    path = PROJECT / "examples" / scenario
    own, other = tmp_path / "own", tmp_path / "other"
    inside = parley("run", path, *options, "--out", own, "--quiet", "--state-digest")
    script = FOLDER / "dispatcher.mjs"
    told = [option for option in options if option not in {"--policy", "fifo"}]
    outside = parley(
        "run", path, *told, "--out", other, "--quiet", "--state-digest", "--", "node", script
    )

    assert (inside.returncode, inside.stderr) == (0, "")
    assert outside.returncode == 0
    assert " 0 differ" in outside.stderr
    for name in ("jobs.csv", "decisions.csv"):
        assert (other / name).read_bytes() == (own / name).read_bytes()
