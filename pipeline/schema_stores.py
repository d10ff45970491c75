"""Where the schemas of values are kept: a folder, or a registry with Confluent's HTTP interface."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, urlsplit

from pyspark_commitlog.storage import InvalidConfigError, LogStoreError

T = TypeVar("T")

_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class SchemaRegistryError(LogStoreError):
    """A registry that cannot be reached, refuses, or answers what nobody can read: not the value's fault."""


class SchemaStore(Protocol):
    """Schemas by number. Values travel to Spark's workers with their store, which is compared and hashed by value."""

    def schema(self, schema_id: int) -> str | None:
        """The schema as JSON text, None where no schema has this id."""

    def id_of(self, subject: str, schema: str) -> int:
        """The id to write with. Raises InvalidConfigError where the store does not have ``schema``."""


@dataclass(frozen=True)
class SchemaFolder:
    """Files ``<id>.avsc``; subjects make no difference. Put there by hand: nothing is ever written."""

    path: str

    def schema(self, schema_id: int) -> str | None:
        file = Path(self.path, f"{schema_id}.avsc")
        return file.read_text(encoding="utf-8") if file.exists() else None

    def __str__(self) -> str:
        return f"folder {self.path}: save it there as <id>.avsc"

    def id_of(self, subject: str, schema: str) -> int:
        wanted = json.loads(schema)
        for file in sorted(Path(self.path).glob("*.avsc")):
            if file.stem.isdecimal() and json.loads(file.read_text(encoding="utf-8")) == wanted:
                return int(file.stem)
        raise InvalidConfigError(
            f"folder {self.path} has no file with the schema for {subject}: save it there as <id>.avsc with a free id"
        )


@dataclass(frozen=True)
class SchemaRegistry:
    """A registry at ``url``. ``headers`` go with every request, as (name, value), such as Authorization.

    With ``register`` a schema that is written with for the first time is registered under its subject; without, it
    must have been. Raises SchemaRegistryError where the registry does not answer within ``timeout_s``, or refuses.
    """

    url: str
    register: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    timeout_s: float = 10

    def __post_init__(self) -> None:
        if urlsplit(self.url).scheme not in ("http", "https"):
            raise InvalidConfigError(f"schema registry {self.url!r}: its address begins with http:// or https://")

    def schema(self, schema_id: int) -> str | None:
        found = self._ask(f"/schemas/ids/{schema_id}")
        if found is None:
            return None
        kind = found.get("schemaType", "AVRO")
        if kind != "AVRO" or found.get("references"):
            what = f"a schema of {kind}" if kind != "AVRO" else "a schema with references to others"
            raise SchemaRegistryError(f"{self}: schema {schema_id} is {what}; only whole Avro schemas are read")
        return self._field(found, "schema", str)

    def id_of(self, subject: str, schema: str) -> int:
        path = f"/subjects/{quote(subject, safe='')}" + ("/versions" if self.register else "")
        found = self._ask(path, {"schema": schema})
        if found is None:
            raise InvalidConfigError(
                f"{self} does not have this schema for subject {subject!r}: register it, or let register=True do so"
            )
        return self._field(found, "id", int)

    def __str__(self) -> str:
        return f"schema registry {self.url}"

    def _ask(self, path: str, body: dict[str, str] | None = None) -> dict[str, Any] | None:
        """The answer; None for 404, which says that there is no such schema or subject."""
        request = urllib.request.Request(
            self.url.rstrip("/") + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Accept": _MEDIA_TYPE, "Content-Type": _MEDIA_TYPE, **dict(self.headers)},
        )
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s) as response:
                answer = json.load(response)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            said = error.read(1000).decode(errors="replace")
            raise SchemaRegistryError(f"{self} answered {error.code} to {path}: {said}") from None
        except (OSError, ValueError) as error:
            raise SchemaRegistryError(f"{self} did not answer to {path}: {error}") from None
        if not isinstance(answer, dict):
            raise SchemaRegistryError(f"{self} answered {answer!r} to {path}")
        return answer

    def _field(self, answer: dict[str, Any], name: str, kind: type[T]) -> T:
        value = answer.get(name)
        if not isinstance(value, kind):
            raise SchemaRegistryError(f"{self} gave no {name}, but {answer!r}")
        return value
