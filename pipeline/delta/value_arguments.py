"""The command-line arguments of the export job that describe the format of values."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import cast

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ...storage import InvalidConfigError
from .. import values
from ..values import JsonSerde, Mode, SchemaFolder, SchemaRegistry, SchemaStore, Serde

# The arguments that each format takes; others would have no effect, and are rejected.
_TAKEN = {
    "raw": (),
    "json": ("schema", "confluent_header", "serde_mode"),
    "avro": ("schema", "registry", "registry_headers", "schema_folder", "serde_mode"),
}
_SERDE_MODE = (
    "failfast (the default): a value that does not decode ends the job; permissive: it becomes a row of nulls, and "
    "--read-mode is permissive too by default"
)


def add_value_arguments(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add(
        "--format",
        default="raw",
        choices=list(_TAKEN),
        help="the format of values; raw keeps their bytes (default: raw)",
    )
    add("--schema", metavar="SCHEMA", help="for json: 'carrier string, delay int'; for avro: the path of a *.avsc file")
    add(
        "--confluent-header",
        action="store_true",
        help="for json: skip Confluent's header (00 and a schema id) before each value",
    )
    add("--registry", metavar="URL", help="for avro: values have Confluent's header; get schemas from this registry")
    add(
        "--registry-headers",
        metavar="FILE",
        help="a file with lines 'Name: value': HTTP headers to send to the registry",
    )
    add(
        "--schema-folder",
        metavar="DIR",
        help="for avro: values have Confluent's header; get schemas from files <id>.avsc in this folder (default, "
        "without --registry: values have the header of Avro's single-object encoding)",
    )
    add("--serde-mode", choices=["failfast", "permissive"], help=_SERDE_MODE)


def serde_of(options: argparse.Namespace) -> Serde | None:
    """Returns the serde for values, or None for ``--format raw``.

    Raises InvalidConfigError for missing arguments, and for arguments that would have no effect.
    """
    _check(options)
    if options.format == "raw":
        return None
    if options.format == "avro":
        return _avro_serde(options)
    schema = to_arrow_schema(cast(StructType, StructType.fromDDL(options.schema)), timezone="UTC")
    session = SparkSession.getActiveSession()
    zone = "UTC" if session is None else str(session.conf.get("spark.sql.session.timeZone"))
    return JsonSerde(schema, _mode(options), confluent_header=options.confluent_header, timezone=zone)


def _mode(options: argparse.Namespace) -> Mode:
    return "permissive" if options.serde_mode == "permissive" else "failfast"


def _check(options: argparse.Namespace) -> None:
    every = sorted({name for names in _TAKEN.values() for name in names})
    given = [name for name in every if getattr(options, name)]
    if useless := [_flag(name) for name in given if name not in _TAKEN[options.format]]:
        raise InvalidConfigError(f"--format {options.format} takes no {', '.join(useless)}{_instead(options)}")
    if options.format != "raw" and options.schema is None:
        raise InvalidConfigError(f"--format {options.format} needs --schema")
    if options.registry and options.schema_folder:
        raise InvalidConfigError("--registry and --schema-folder both name schemas: give only one of them")
    if options.registry_headers and not options.registry:
        raise InvalidConfigError("--registry-headers needs --registry")
    if options.confluent_header and options.direction == "to-topic":
        raise InvalidConfigError("--confluent-header is only for to-table: to-topic writes JSON without a header")
    if options.serde_mode and options.direction == "to-topic":
        raise InvalidConfigError(
            "--serde-mode is only for to-table: to-topic has one mode, it fails at a row that does not fit the schema"
        )


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _instead(options: argparse.Namespace) -> str:
    if options.format == "json" and (options.registry or options.schema_folder):
        return "; the columns are those of --schema, and --confluent-header skips the schema's id"
    return "; columns need --format json or avro" if options.format == "raw" else ""


def _avro_serde(options: argparse.Namespace) -> Serde:
    framing: values.Framing = values.SingleObject()  # imports fastavro, which comes with an extra
    if options.registry or options.schema_folder:
        framing = values.Confluent(_store(options), f"{options.topic}-value")
    try:
        schema = Path(options.schema).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfigError(f"--schema {options.schema}: {error}; for avro, give the path of a file") from None
    return values.AvroSerde(schema, framing, _mode(options))


def _store(options: argparse.Namespace) -> SchemaStore:
    if options.schema_folder:
        return SchemaFolder(options.schema_folder)
    headers = options.registry_headers and str(Path(options.registry_headers).absolute())
    return SchemaRegistry(options.registry, headers_file=headers)
