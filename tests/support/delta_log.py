"""Commits of Delta tables as Delta writes them, for tests without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ADDED = {"operation": "WRITE", "operationParameters": {"mode": "Append"}, "operationMetrics": {"numOutputRows": "3"}}


def commit(table: Path, *infos: dict[str, Any]) -> None:
    """Adds commits to the table in a folder, each with the content of its ``commitInfo``."""
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    for version, info in enumerate(infos, start=len(list(log.iterdir()))):
        actions = [{"commitInfo": info}, {"add": {"path": "part-0.parquet"}}]
        text = "\n".join(json.dumps(each, separators=(",", ":")) for each in actions)
        (log / f"{version:020d}.json").write_text(text, encoding="utf-8")


def exported(table: Path, topic: str, **offsets: int) -> None:
    """Adds a commit of the export job, with the next offset of partitions ``p0``, ``p1`` and so on."""
    following = {topic: {name.removeprefix("p"): offset for name, offset in offsets.items()}}
    commit(table, ADDED | {"userMetadata": json.dumps({"commitlog": {"next": following}})})
