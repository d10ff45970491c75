"""The serde that the arguments of the export job describe."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ...arrow.values.schema_stores import SchemaFolder, SchemaRegistry, SchemaStore
from ...arrow.values.serde import JsonSerde, Mode, Serde
from ...storage import InvalidConfigError
from ..rows.arrow_schema import as_arrow
from .command.value_arguments import TAKEN

if TYPE_CHECKING:
    from ...arrow.values.avro.serde import Framing


def serde_of(options: argparse.Namespace) -> Serde | None:
    """Returns the serde for values, or None for ``--format raw``.

    Raises InvalidConfigError for missing arguments, and for arguments that would have no effect.
    """
    _check(options)
    if options.format == "raw":
        return None
    if options.format == "avro":
        return _avro_serde(options)
    schema = as_arrow(cast(StructType, StructType.fromDDL(options.schema)))
    session = SparkSession.getActiveSession()
    zone = "UTC" if session is None else str(session.conf.get("spark.sql.session.timeZone"))
    return JsonSerde(schema, _mode(options), confluent_header=options.confluent_header, timezone=zone)


def _mode(options: argparse.Namespace) -> Mode:
    return "permissive" if options.serde_mode == "permissive" else "failfast"


def _check(options: argparse.Namespace) -> None:
    every = sorted({name for names in TAKEN.values() for name in names})
    given = [name for name in every if getattr(options, name)]
    if useless := [_flag(name) for name in given if name not in TAKEN[options.format]]:
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
    from ...arrow.values.avro.serde import AvroSerde, Confluent, SingleObject  # noqa: PLC0415  needs the extra avro

    framing: Framing = SingleObject()
    if options.registry or options.schema_folder:
        framing = Confluent(_store(options), f"{options.topic}-value")
    try:
        schema = Path(options.schema).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfigError(f"--schema {options.schema}: {error}; for avro, give the path of a file") from None
    return AvroSerde(schema, framing, _mode(options))


def _store(options: argparse.Namespace) -> SchemaStore:
    if options.schema_folder:
        return SchemaFolder(options.schema_folder)
    headers = options.registry_headers and str(Path(options.registry_headers).absolute())
    return SchemaRegistry(options.registry, headers_file=headers)
