"""Flags that name the schemas of Avro values, and the objects they select."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..storage import InvalidConfigError

if TYPE_CHECKING:
    from ..arrow.values.avro.serde import Framing

Registry = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Decode values of Avro with Confluent's header by this schema registry."),
]
RegistryHeaders = Annotated[
    Path | None, typer.Option(help="A file with lines 'Name: value': HTTP headers to send to the registry.")
]
SchemaFolder = Annotated[
    Path | None, typer.Option(help="Decode values of Avro with Confluent's header by files <id>.avsc in this folder.")
]


def framing_of(
    registry: str | None, headers: Path | None, folder: Path | None, *, timeout_s: float = 10
) -> Framing | None:
    """Returns the header of Avro values with its store of schemas; None if no schemas are given.

    ``timeout_s``: for an answer of the registry. Raises InvalidConfigError, and MissingExtraError without fastavro.
    """
    if registry and folder:
        raise InvalidConfigError("--registry and --schema-folder both name schemas: give only one of them")
    if headers and not registry:
        raise InvalidConfigError("--registry-headers needs --registry")
    if not registry and not folder:
        return None
    from ..arrow.values.avro.serde import Confluent  # noqa: PLC0415  needs the extra avro
    from ..arrow.values.schema_stores import SchemaFolder, SchemaRegistry, SchemaStore  # noqa: PLC0415

    file = None if headers is None else str(headers)
    store: SchemaStore = SchemaFolder(str(folder))
    if registry:
        store = SchemaRegistry(registry, timeout_s=timeout_s, headers_file=file)
    return Confluent(store)
