"""The arguments of the export job that describe the format of values."""

from __future__ import annotations

import argparse

# The arguments that each format takes; others would have no effect, and are rejected.
TAKEN = {
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
        choices=list(TAKEN),
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
