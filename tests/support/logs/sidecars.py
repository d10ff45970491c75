"""The files Kafka wrote that lie in ``tests/golden/sidecars``, and what Kafka's dump tool says of them."""

from __future__ import annotations

from pathlib import Path

SIDECARS = Path(__file__).parents[2] / "golden" / "sidecars"


def partition_files(suffix: str) -> list[Path]:
    """Of all partitions, in order; never none, so that no test passes for want of files."""
    found = sorted(SIDECARS.glob(f"*/*{suffix}"))
    assert found
    return found


def dump_of(path: Path) -> list[str]:
    """The lines the dump tool printed for one file."""
    lines: dict[str, list[str]] = {}
    for line in (path.parent / "dump.txt").read_text().splitlines():
        if line.startswith("Dumping "):
            current = lines.setdefault(line.removeprefix("Dumping "), [])
        else:
            current.append(line)
    return lines[path.name]
