"""The certificate of an erasure: a JSON file that states the request, the changes, and the result of a re-read.

It is written before the first record is erased, and replaced after each partition, so that the run after a killed one
continues with the same file.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Self

from ..errors import CorruptionError, InvalidConfigError
from ..filesystem.local import LocalFileSystem
from ..filesystem.operations import read_file, write_atomically
from .choosing import ChosenRecords, ErasedOffsets, RecordChoice
from .in_tier import EarlierRun
from .keys import AskedKeys, SaltedKeys
from .search import ErasedKeys, Sought

VERSION = 1
CERTIFICATE_BYTES_MAX = 1024 * 1024 * 1024
NOT_SEARCHED = (
    "The log cannot show who has copied its records: snapshots and backups elsewhere, mirrors, Delta tables of "
    "commitlog export, and the state of streaming queries were not searched."
)


def certificate_name(now_ms: int) -> str:
    """Returns a name for a certificate that is begun at ``now_ms``: ``erased-20261129T103000Z.json``."""
    return f"erased-{datetime.fromtimestamp(now_ms / 1000, UTC):%Y%m%dT%H%M%SZ}.json"


@dataclass(frozen=True)
class Erasure:
    """The request of an erasure."""

    records: AskedKeys | RecordChoice  # the records with these keys, or those for which a condition is true
    reason: str
    topics: tuple[str, ...]  # as they were given
    certificate: str  # path of the file
    shows_keys: bool = False  # in the certificate, rather than salted hashes


class Certificate:
    """A certificate that is being written."""

    def __init__(self, path: str, content: dict[str, Any]) -> None:
        self._path, self._content = path, content
        self._has_erased = "ended_ms" not in content  # also by a run that was killed

    @classmethod
    def begin(cls, asked: Erasure, log: str, now_ms: int) -> Self:
        """Begins a certificate, or continues the one of an earlier run of the same request.

        Raises InvalidConfigError if there is another file.
        """
        content = _read(asked.certificate)
        if content is not None:
            _check_same(asked, content, log)
        else:
            content = {
                "version": VERSION,
                "program": f"spark-commitlog {version('spark-commitlog')}",
                "log": log,
                "reason": asked.reason,
                "began_ms": now_ms,
                "is_complete": False,
                "asked": {"topics": [*asked.topics], **_named(asked)},
                "partitions": {},
                "not_searched": NOT_SEARCHED,
            }
        made = cls(asked.certificate, content)
        content.pop("ended_ms", None)
        content["is_complete"] = False
        made._write()
        return made

    def note(self, partition: str, facts: Mapping[str, Any]) -> None:
        """Adds the changes of a run to a partition, after those of earlier runs, and the state of the partition now."""
        before = self._content["partitions"].get(partition, {})
        self._has_erased |= bool(facts.get("replaced"))
        lists = {key: [*before.get(key, []), *facts.get(key, [])] for key in _LISTS}
        self._content["partitions"][partition] = {**facts, **lists}
        self._write()

    def choose(self, partition: str, chosen: ChosenRecords) -> ErasedOffsets:
        """Adds the records that will be erased; returns their offsets, and those that earlier runs have chosen."""
        choices = self._content.setdefault("chosen", {}).setdefault(partition, [])
        erased = _erased(choices, chosen.topic_id).joined(chosen.offsets)
        choices.append(chosen.to_json())
        self._write()
        return erased

    def earlier(self, partition: str) -> EarlierRun | None:
        """Returns the result of the last run for a partition; None if that had not erased all."""
        facts = self._content["partitions"].get(partition, {})
        if not facts.get("is_free") or facts.get("topic_id") is None:
            return None
        old = frozenset(each["segment_id"] for each in facts["in_tier"])
        return EarlierRun(facts["topic_id"], facts["erased_below_offset"], old)

    @property
    def names_old_objects(self) -> bool:
        """Whether a run has named the old objects, and no later run has erased more."""
        return "old_objects" in self._content and not self._has_erased

    def name_old_objects(self, keys: Collection[str]) -> None:
        """Adds objects on an object store that may have erased records, until the collector deletes them."""
        self._content["old_objects"] = sorted({*self.old_objects, *keys})
        self._write()

    @property
    def old_objects(self) -> list[str]:
        return [*self._content.get("old_objects", [])]

    def end(self, now_ms: int, waiting: Sequence[str] = ()) -> None:
        """States whether all partitions are done, and neither they nor the objects in ``waiting`` have the records."""
        partitions = self._content["partitions"].values()
        self._content["records_erased"] = sum(each["records"] for of in partitions for each in of["replaced"])
        is_done = bool(partitions) and all(of.get("is_complete") for of in partitions)
        self._content["is_complete"] = is_done and not waiting
        self._content["waiting_objects"] = [*waiting]
        self._content["ended_ms"] = now_ms
        self._write()

    @property
    def is_complete(self) -> bool:
        return bool(self._content["is_complete"])

    def _write(self) -> None:
        write_atomically(LocalFileSystem(), self._path, json.dumps(self._content, indent=1).encode() + b"\n")


_LISTS = ("replaced", "removed_files", "elsewhere")  # of a partition: what all runs did


@dataclass(frozen=True)
class ErasureClaim:
    """The statements of a certificate that can be checked again."""

    topics: tuple[str, ...]
    keys: AskedKeys | SaltedKeys | None  # None: records were chosen by a condition
    partitions: frozenset[str]
    chosen: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)  # by partition

    @classmethod
    def read(cls, path: str) -> Self:
        """Raises InvalidConfigError if the file is missing, or is not a certificate."""
        content = _read(path)
        if content is None:
            raise InvalidConfigError(f"--check {path}: there is no such file")
        try:
            asked = content["asked"]
            keys = None if "where" in asked else _keys_in(asked)
            claim = cls(tuple(asked["topics"]), keys, frozenset(content["partitions"]), content.get("chosen", {}))
            for choices in claim.chosen.values():
                _erased(choices, None)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _no_certificate(path, error) from error
        return claim

    def sought(self, partition: str, topic_id: str | None) -> Sought:
        """Returns the search for records that a partition of the topic with this id must no longer have."""
        return _erased(self.chosen.get(partition, ()), topic_id) if self.keys is None else ErasedKeys(self.keys)


def _erased(choices: Sequence[Mapping[str, Any]], topic_id: str | None) -> ErasedOffsets:
    """Returns the offsets in choices, except those in another topic of the same name.

    Raises KeyError, TypeError or ValueError for content that is not from :meth:`ChosenRecords.to_json`.
    """
    spans = [span for each in choices if each["topic_id"] == topic_id for span in each["offsets"]]
    return ErasedOffsets.of(spans)


def _named(asked: Erasure) -> dict[str, Any]:
    records = asked.records
    if not isinstance(records, AskedKeys):
        return {"where": records.sql}
    named = {"base64": sorted(base64.b64encode(key).decode() for key in records.keys)}
    return {"count": len(records.keys), "keys": named if asked.shows_keys else records.salted().to_json()}


def _keys_in(asked: Mapping[str, Any]) -> AskedKeys | SaltedKeys:
    keys = asked["keys"]
    if "base64" in keys:
        return AskedKeys(frozenset(map(base64.b64decode, keys["base64"])))
    return SaltedKeys.from_json(keys)


def _read(path: str) -> dict[str, Any] | None:
    try:
        content = json.loads(read_file(LocalFileSystem(), path, CERTIFICATE_BYTES_MAX))
    except FileNotFoundError:
        return None
    except (ValueError, CorruptionError) as error:
        raise _no_certificate(path, error) from error
    if not isinstance(content, dict) or content.get("version") != VERSION:
        raise _no_certificate(path, f"it has no version {VERSION}")
    return content


def _no_certificate(path: str, error: object) -> InvalidConfigError:
    return InvalidConfigError(f"{path}: this file is no certificate of an erasure: {error}; name another file")


def _check_same(asked: Erasure, content: Mapping[str, Any], log: str) -> None:
    try:
        is_same = _is_of(asked.records, content["asked"]) and [*asked.topics] == content["asked"]["topics"]
        is_same = is_same and (asked.reason, log) == (content["reason"], content["log"])
    except (ValueError, KeyError, TypeError) as error:
        raise _no_certificate(asked.certificate, error) from error
    if not is_same:
        raise InvalidConfigError(
            f"{asked.certificate}: this certificate is of another erasure, with other records, topics, log or reason; "
            "name another file with --certificate"
        )


def _is_of(records: AskedKeys | RecordChoice, asked: Mapping[str, Any]) -> bool:
    """Whether a certificate is for the same request."""
    if not isinstance(records, AskedKeys) or "where" in asked:
        return not isinstance(records, AskedKeys) and asked.get("where") == records.sql
    keys = _keys_in(asked)
    return keys == (records if isinstance(keys, AskedKeys) else records.salted(keys.salt))
