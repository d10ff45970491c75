"""``commitlog delete-records``: the file and the text of ``kafka-delete-records``, on a log directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from pyspark_commitlog import storage
from pyspark_commitlog.cli.flags import AsJson, DryRun, LogDir
from pyspark_commitlog.cli.output import fail, print_json

EXAMPLE = '{"partitions": [{"topic": "orders", "partition": 0, "offset": 10}], "version": 1}'

OffsetJsonFile = Annotated[Path, typer.Option(help=f"Up to where records go, -1: all there are. For example {EXAMPLE}")]


def delete_records(  # the flags are those of kafka-delete-records
    *,
    log_dir: LogDir,
    offset_json_file: OffsetJsonFile,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Delete the records of partitions below an offset each: the log start rises to it.

    Nobody sees them from then on; their files go with the next retention, as soon as all of a segment is below the log
    start. One partition that cannot be changed keeps nobody from the others; the exit code then is 1.
    """
    before = _parsed(offset_json_file)
    with storage.LogManager.open(log_dir) as manager:
        results = list(storage.delete_records(manager, before, dry_run=dry_run))
    if as_json:
        print_json(_json(result, is_dry=dry_run) for result in results)
    else:
        typer.echo("Executing records delete operation" + (", a dry run: nothing is changed" if dry_run else ""))
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


def _parsed(path: Path) -> dict[tuple[str, int], int]:
    """The offsets by partition; ends the command where the file is none of Kafka's."""
    try:
        content = json.loads(path.read_text())
        rows = [(str(row["topic"]), int(row["partition"]), int(row["offset"])) for row in content["partitions"]]
        version = content.get("version", 1)
    except FileNotFoundError:
        fail(f"{path}: no such file")
    except KeyError as error:
        fail(f"{path}: the field {error} is missing; such a file is like {EXAMPLE}")
    except (ValueError, TypeError, AttributeError) as error:
        fail(f"{path}: {error}; such a file is like {EXAMPLE}")
    if version != 1:
        fail(f"{path}: version {version}, only 1 is known")
    parsed = {(topic, partition): offset for topic, partition, offset in rows}
    if len(parsed) < len(rows):
        twice = sorted({row[:2] for row in rows if [other[:2] for other in rows].count(row[:2]) > 1})
        fail(f"{path}: more than one offset for {', '.join(f'{topic}-{partition}' for topic, partition in twice)}")
    return parsed
