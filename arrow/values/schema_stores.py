"""Stores of schemas: a folder of files, or a registry with Confluent's HTTP interface."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from ...storage import InvalidConfigError, LogStoreError
from .registry_requests import Answer, Headers, Question, ask, check_headers, split_credentials, without_secrets

T = TypeVar("T")

_MEDIA_TYPES = tuple((name, "application/vnd.schemaregistry.v1+json") for name in ("Accept", "Content-Type"))


class SchemaRegistryError(LogStoreError):
    """A registry cannot be reached, refuses a request, or sends an unreadable answer; the value itself may be valid."""


class SchemaStore(Protocol):
    """Finds schemas by id, and ids of schemas. It is sent to Spark's workers, and compared and hashed by value."""

    def schema(self, schema_id: int) -> str | None:
        """Returns the schema with this id as JSON text; None if the store does not have it."""

    def id_of(self, subject: str, schema: str) -> int:
        """Returns the id of ``schema`` for ``subject``. Raises InvalidConfigError if the store does not have it."""


def schema_in(file: Path) -> str:
    """Returns the text of a JSON file. Raises InvalidConfigError, with the path, if it cannot be read."""
    try:
        text = file.read_text(encoding="utf-8")
        json.loads(text)
    except OSError as error:
        raise InvalidConfigError(f"schema {file} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidConfigError(f"schema {file} is not JSON in UTF-8: {error}") from None
    return text


@dataclass(frozen=True)
class SchemaFolder:
    """A store in a folder of files ``<id>.avsc``, for any subject. Users save the files: this class only reads."""

    path: str

    def schema(self, schema_id: int) -> str | None:
        file = Path(self.path, f"{schema_id}.avsc")
        return schema_in(file) if file.exists() else None

    def __str__(self) -> str:
        return f"folder {self.path}: save it there as <id>.avsc"

    def id_of(self, subject: str, schema: str) -> int:
        wanted = json.loads(schema)
        for file in sorted(Path(self.path).glob("*.avsc")):
            if file.stem.isdecimal() and json.loads(schema_in(file)) == wanted:
                return int(file.stem)
        raise InvalidConfigError(
            f"folder {self.path} has no file with the schema for {subject}: save it there as <id>.avsc with a new id"
        )


@dataclass(frozen=True)
class SchemaRegistry:
    """A store in a schema registry at ``url``, which may be ``https://user:password@host``.

    ``headers`` are pairs of name and value that every request to this host has; they are sent to Spark's workers in
    the query's plan. ``headers_file`` is the path of a file with lines ``Name: value``, which each worker reads when it
    makes a request, so its content is in no plan. With ``register``, a schema is registered under its subject when it
    is first used to write; otherwise it must be registered already. Retries temporary failures within ``timeout_s``.
    After that, or at once if the registry refuses a request, raises SchemaRegistryError. No error and no repr shows
    credentials.
    """

    url: str  # a user and password in it become a header
    register: bool = False
    headers: Headers = field(default=(), repr=False)
    timeout_s: float = 10
    headers_file: str | None = None

    def __post_init__(self) -> None:
        bare, credentials = split_credentials(self.url)
        given = check_headers(self.headers, f"schema registry {bare}")
        if credentials and any(name.lower() == "authorization" for name, _ in given):
            raise InvalidConfigError(
                f"schema registry {bare}: both its address and its headers have credentials; give only one of them"
            )
        if self.timeout_s <= 0:
            raise InvalidConfigError(f"schema registry {bare}: timeout_s is {self.timeout_s}; it must be above 0")
        object.__setattr__(self, "url", bare)
        object.__setattr__(self, "headers", (*given, *credentials))

    def schema(self, schema_id: int) -> str | None:
        found = self._ask(f"/schemas/ids/{schema_id}")
        if found is None:
            return None
        kind = found.get("schemaType", "AVRO")
        if kind != "AVRO" or found.get("references"):
            what = f"a schema of {kind}" if kind != "AVRO" else "a schema with references to others"
            raise SchemaRegistryError(f"{self}: schema {schema_id} is {what}; only complete Avro schemas can be read")
        return self._field(found, "schema", str)

    def id_of(self, subject: str, schema: str) -> int:
        path = f"/subjects/{quote(subject, safe='')}" + ("/versions" if self.register else "")
        found = self._ask(path, {"schema": schema})
        if found is None:
            raise InvalidConfigError(
                f"{self} does not have this schema for subject {subject!r}: register it, or set register=True"
            )
        return self._field(found, "id", int)

    def __str__(self) -> str:
        return f"schema registry {self.url}"

    def _ask(self, path: str, body: dict[str, str] | None = None) -> dict[str, Any] | None:
        """Returns the JSON object in the answer; None for 404: the schema or subject does not exist."""
        credentials = (*self.headers, *_headers_of(self.headers_file))
        sent = None if body is None else json.dumps(body).encode()
        answer = ask(Question(self.url.rstrip("/") + path, sent, _MEDIA_TYPES, credentials, self.timeout_s))
        if answer.status == 404:
            return None
        try:
            if answer.status is None or answer.status >= 300:
                raise ValueError
            found = json.loads(answer.body)
        except (ValueError, RecursionError):
            failure = without_secrets(_failure_text(answer, path, self.timeout_s), credentials)
            raise SchemaRegistryError(f"{self} {failure}") from None
        if not isinstance(found, dict):
            raise SchemaRegistryError(
                without_secrets(f"{self} answered {path} with {found!r:.1000}, not with a JSON object", credentials)
            )
        return found

    def _field(self, answer: dict[str, Any], name: str, kind: type[T]) -> T:
        value = answer.get(name)
        if not isinstance(value, kind):
            shown = without_secrets(f"{answer!r:.1000}", self.headers)
            raise SchemaRegistryError(f"{self} returned no {name}, but {shown}")
        return value


def _failure_text(answer: Answer, path: str, timeout_s: float) -> str:
    tries = f" ({answer.tries} tries within {timeout_s:g} s)" if answer.tries > 1 else ""
    if answer.status is None:
        return f"did not answer to {path}: {answer.failure}{tries}"
    elsewhere = f"; it redirected to {answer.redirected_to}, which gets no credentials" * bool(answer.redirected_to)
    what = f"answered {answer.status} to {path}" if answer.status >= 300 else f"did not answer to {path} with JSON"
    return f"{what}: {answer.body[:1000].decode(errors='replace')}{elsewhere}{tries}"


def _headers_of(file: str | None) -> Headers:
    """Returns the headers in a file, one per line. Raises InvalidConfigError, which shows none of their values."""
    if file is None:
        return ()
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "the file is not UTF-8"
        raise InvalidConfigError(f"headers_file {file} of the schema registry cannot be read: {why}") from None
    pairs = [line.partition(":") for line in lines if line.strip()]
    return check_headers(((name.strip(), value.strip()) for name, _, value in pairs), f"file {file}")
