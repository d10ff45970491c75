"""The examples in conf/schedule and docs/scheduling.md call existing jobs with options that these accept."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from pyspark_commitlog.pipeline.job import arguments
from pyspark_commitlog.storage import ConfigOverrides

ROOT = Path(__file__).parents[2]
CALL = re.compile(r"jobs/(\w+)\.py((?: +(?:'[^']*'|--?[\w-]+|[^\s'|`]+))*)")


def calls(path: Path) -> list[tuple[str, list[str]]]:
    """Returns job and options of each call in a file, in order; a comment after a call is preceded by three blanks."""
    lines = [line.strip().split("   ")[0] for line in path.read_text().splitlines()]
    return [
        (job, shlex.split(options)) for line in lines for job, options in CALL.findall(line) if "--log-dir" in options
    ]


@pytest.mark.parametrize(
    ("name", "jobs"),
    [
        ("conf/schedule/crontab", ["retain", "compact", "verify"]),
        ("conf/schedule/cronjob.yaml", ["retain"]),
        ("docs/scheduling.md", ["retain", "retain", "compact", "verify", "retain", "compact", "retain"]),
    ],
)
def test_the_options_of_an_example_are_known(name: str, jobs: list[str]) -> None:
    found = calls(ROOT / name)
    assert [job for job, _ in found] == jobs
    for job, options in found:
        assert (ROOT / "jobs" / f"{job}.py").exists()
        parser = arguments("")
        for option in ("--keep-for-groups", "--policy", "--policy-option"):
            parser.add_argument(option)
        ConfigOverrides.parse(parser.parse_args(options).config)
