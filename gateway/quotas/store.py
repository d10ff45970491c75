"""QuotaStore: the quotas that clients set, in a file. The gateway writes it; all nodes over a log share it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from ...storage import PolicyViolationError
from ..security.whole_file import Form, KeptFile, Looks
from .entities import KEYS, TYPES, Entity, Quotas, Values

VERSION = 1
ENTITIES_MAX = 10_000

Changes = Mapping[Entity, Mapping[str, float | None]]  # None: no quota any more


class QuotaStore:
    """The quotas in force. For any thread. A change by :meth:`change` holds here before it returns."""

    def __init__(self, path: str, now_s: Callable[[], float] = time.monotonic) -> None:
        """``path``: "" for no file, and no quotas.

        Raises OSError, and InvalidConfigError if it is not a file of quotas.
        """
        form: Form[Mapping[Entity, Values]] = Form(VERSION, {}, _read, _written)
        self._file = KeptFile(path, "quotas", form) if path else None
        self._current = Quotas({} if self._file is None else self._file.content)
        self._looks = Looks(now_s)

    @property
    def is_kept(self) -> bool:
        """Whether quotas can be set."""
        return self._file is not None

    def current(self) -> Quotas:
        """Returns the quotas, read again if the file has changed."""
        if self._file is not None:
            self._looks.run(self._look)
        return self._current

    def _look(self) -> None:
        assert self._file is not None
        if self._file.look():
            self._current = Quotas(self._file.content)

    def change(self, changes: Changes) -> None:
        """Sets and removes quotas; this is synced on return.

        Raises the errors of KeptFile.change, and PolicyViolationError if there are too many entities.
        """
        assert self._file is not None  # the caller has asked
        with self._looks.lock:
            self._file.change(lambda before: _changed(before, changes))
            self._current = Quotas(self._file.content)


def _changed(before: Mapping[Entity, Values], changes: Changes) -> Mapping[Entity, Values]:
    after = dict(before)
    for entity, values in changes.items():
        merged = {**after.get(entity, {}), **values}
        kept = {key: value for key, value in merged.items() if value is not None}
        after.pop(entity, None)
        if kept:
            after[entity] = kept
    if len(after) > max(ENTITIES_MAX, len(before)):
        raise PolicyViolationError(f"there may be {ENTITIES_MAX} quotas: use defaults, or remove some")
    return after


def _written(quotas: Mapping[Entity, Values]) -> str:
    entries = [{"entity": dict(entity.names), "values": values} for entity, values in quotas.items()]
    return json.dumps({"version": VERSION, "quotas": entries}, indent=1)


def _read(document: Mapping[str, Any]) -> Mapping[Entity, Values]:
    return {_entity(each["entity"]): _values(each["values"]) for each in document["quotas"]}


def _entity(names: Mapping[str, Any]) -> Entity:
    if not names or not set(names) <= set(TYPES) or not all(each is None or each for each in names.values()):
        raise ValueError(f"a quota of {names}")
    return Entity.of({kind: None if name is None else str(name) for kind, name in names.items()})


def _values(values: Mapping[str, Any]) -> Values:
    found = {key: float(value) for key, value in values.items()}
    if not set(found) <= set(KEYS) or not all(0 < each < math.inf for each in found.values()):
        raise ValueError(f"quotas {values}")
    return found
