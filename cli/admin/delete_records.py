"""``commitlog delete-records``: ``kafka-delete-records`` on a log directory, with its file format and output."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ... import storage
from ..flags import AsJson, DryRun, LogDir
from ..output import fail, print_json

EXAMPLE = '{"partitions": [{"topic": "orders", "partition": 0, "offset": 10}], "version": 1}'

OffsetJsonFile = Annotated[
    Path,
    typer.Option(
        help=f"A file with the offset below which to delete, per partition; -1 deletes all. Example: {EXAMPLE}"
    ),
]


def delete_records(  # the flags are those of kafka-delete-records
    *,
    log_dir: LogDir,
    offset_json_file: OffsetJsonFile,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Delete the records of partitions below given offsets, which become the log start offsets.

    Readers no longer see these records. The next retention run deletes the segments that are entirely below the log
    start offset. If a partition cannot be changed, the others still are, and the exit code is 1.
    """
    before = _parsed(offset_json_file)
    with storage.LogManager.open(log_dir) as manager:
        results = list(storage.delete_records(manager, before, dry_run=dry_run))
    if as_json:
        print_json(_json(result, is_dry=dry_run) for result in results)
    else:
        typer.echo("Executing records delete operation" + (" (dry run: nothing is changed)" if dry_run else ""))
        typer.echo("Records delete operation completed:")
        for result in results:
            typer.echo(f"partition: {result.topic}-{result.partition}\t{_outcome(result)}")
    if any(result.error is not None for result in results):
        raise typer.Exit(1)


def _outcome(result: storage.DeletedRecords) -> str:
    if result.error is None:
        return f"low_watermark: {result.log_start_offset}"
    return f"error: {type(result.error).__name__}: {result.error}"


def _json(result: storage.DeletedRecords, *, is_dry: bool) -> dict[str, Any]:
    error = None if result.error is None else str(result.error)
    return {**result._asdict(), "error": error, "deleted": result.error is None and not is_dry}


def _parsed(path: Path) -> dict[storage.TopicPartition, int]:
    """Returns the offsets by partition in a file of Kafka's format. Exits with 1 for any other content."""
    try:
        content = json.loads(path.read_text())
        rows = [
            (storage.TopicPartition(str(row["topic"]), _whole(row, "partition")), _whole(row, "offset"))
            for row in content["partitions"]
        ]
        version = content.get("version", 1)
    except FileNotFoundError:
        fail(f"{path}: no such file")
    except KeyError as error:
        fail(f"{path}: field {error} is missing; expected a file like {EXAMPLE}")
    except (ValueError, TypeError, AttributeError) as error:
        fail(f"{path}: {error}; expected a file like {EXAMPLE}")
    if version != 1:
        fail(f"{path}: version {version} is not supported; use version 1")
    parsed = dict(rows)
    if len(parsed) < len(rows):
        counts = Counter(partition for partition, _ in rows)
        twice = sorted(partition for partition, count in counts.items() if count > 1)
        fail(f"{path}: more than one offset for {', '.join(map(str, twice))}; give one for each")
    return parsed


def _whole(row: Mapping[str, Any], field: str) -> int:
    """Returns a number of a row. Raises ValueError for any other value: a deletion must not go by a rounded one."""
    found = row[field]
    if not isinstance(found, int) or isinstance(found, bool):
        raise ValueError(f"field {field!r} is {json.dumps(found)}, not a whole number")
    return found
