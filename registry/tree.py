"""Tree: the nodes of a registry in memory and changes of them, both with their JSON form."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError, RegistryError
from .port import ANY_VERSION, Node, parent_path

KEPT_BYTES_MAX = 64 * 1024 * 1024  # of persistent nodes; clients of Kafka 0.8 make them, with names that they choose
_NODE_BYTES = 100  # about what a node takes in the file, besides its path and its data

Operation = Sequence[Any]
"""What :meth:`Tree.apply` takes, as JSON has it: ``["create", path, data, owner]``, ``["set", path, data]`` or
``["delete", path]``."""

Mark = tuple[int, ...] | None
"""Differs before and after any change that a watch is for; None: there is no node."""


@dataclass(slots=True)
class _Entry:
    data: bytes | None
    owner: str | None
    created_at: int  # the number of the change, also in the fields below
    changed_at: int
    children_at: int
    version: int = 0
    children_version: int = 0
    children: set[str] = field(default_factory=set)


class Tree:
    """The nodes. :meth:`plan_create` and the other plan methods check changes; :meth:`apply` does not."""

    def __init__(self) -> None:
        self.number = 0  # of the last change
        self.kept_bytes = 0  # about what the persistent nodes take in the file
        self._entries = {"/": _Entry(b"", None, 0, 0, 0)}
        self._owned: dict[str, set[str]] = {}

    # Reading

    def __contains__(self, path: str) -> bool:
        return path in self._entries

    def node(self, path: str) -> Node:
        """Returns a node. Raises NoNodeError."""
        entry = self._entry(path)
        return Node(entry.data, entry.version, entry.children_version, entry.owner)

    def children(self, path: str) -> list[str]:
        """Returns the names of children, sorted. Raises NoNodeError."""
        return sorted(self._entry(path).children)

    def owned_by(self, session: str) -> list[str]:
        """Returns the paths of a session's ephemeral nodes, sorted."""
        return sorted(self._owned.get(session, ()))

    def owners(self) -> list[str]:
        """Returns the sessions that own a node."""
        return list(self._owned)

    def mark(self, path: str) -> Mark:
        """Returns a value that changes whenever the node is created or deleted, or its data changes."""
        entry = self._entries.get(path)
        return None if entry is None else (entry.created_at, entry.changed_at)

    def children_mark(self, path: str) -> Mark:
        """Returns a value that changes whenever the node's children change."""
        entry = self._entries.get(path)
        return None if entry is None else (entry.created_at, entry.children_at)

    def _entry(self, path: str) -> _Entry:
        entry = self._entries.get(path)
        if entry is None:
            raise NoNodeError(f"{path}: there is no such node in the registry")
        return entry

    # Planning changes

    def plan_create(self, path: str, data: bytes | None, owner: str | None) -> list[Operation]:
        """Returns the operations that create a node and its parents.

        Raises NodeExistsError, and RegistryError for a persistent node if there is no room for it.
        """
        if path in self._entries:
            raise NodeExistsError(f"{path}: the node exists already")
        missing, parent = [], parent_path(path)
        while parent not in self._entries:
            missing.append(parent)
            parent = parent_path(parent)
        if self._entries[parent].owner is not None:
            raise RegistryError(f"{parent}: the node is ephemeral, so it cannot have children")
        new_bytes = _bytes_of(path, data) + sum(_bytes_of(each, None) for each in missing)
        if owner is None and self.kept_bytes + new_bytes > KEPT_BYTES_MAX:
            raise RegistryError(
                f"{path:.200}: the registry has {self.kept_bytes} bytes of persistent nodes, of at most "
                f"{KEPT_BYTES_MAX}; delete those that nobody needs, such as offsets of old groups below /consumers"
            )
        return [*(["create", each, None, None] for each in reversed(missing)), ["create", path, _text(data), owner]]

    def plan_set(self, path: str, data: bytes | None, version: int) -> list[Operation]:
        """Returns the operation that sets the data. Raises NoNodeError and BadVersionError."""
        self._check_version(path, version)
        return [["set", path, _text(data)]]

    def plan_delete(self, path: str, version: int) -> list[Operation]:
        """Returns the operation that deletes a node. Raises NoNodeError, BadVersionError and NotEmptyError."""
        self._check_version(path, version)
        if self._entry(path).children or path == "/":
            raise NotEmptyError(f"{path}: the node has children; delete them first")
        return [["delete", path]]

    def _check_version(self, path: str, version: int) -> None:
        found = self._entry(path).version
        if version not in (ANY_VERSION, found):
            raise BadVersionError(f"{path}: the node has version {found}, not {version}: another process changed it")

    # Changing

    def apply(self, number: int, operations: Iterable[Operation]) -> None:
        """Applies a change. Raises ValueError if the nodes do not allow it."""
        for kind, path, *given in operations:
            if (path in self._entries) == (kind == "create"):
                raise ValueError(f"{kind} {path} does not fit the nodes before it")
            if kind == "create":
                self._create(number, path, *given)
            elif kind == "set":
                entry = self._entries[path]
                self._count(path, entry, -1)
                entry.data, entry.changed_at = _data(*given), number
                self._count(path, entry, 1)
                entry.version += 1
            elif kind == "delete":
                self._delete(number, path)
            else:
                raise ValueError(f"there is no operation {kind}")
        self.number = number

    def _create(self, number: int, path: str, data: Any, owner: str | None) -> None:
        self._touch_parent(number, path).add(path.rpartition("/")[2])
        self._add(path, _Entry(_data(data), owner, number, number, number))

    def _add(self, path: str, entry: _Entry) -> None:
        self._entries[path] = entry
        self._count(path, entry, 1)
        if entry.owner is not None:
            self._owned.setdefault(entry.owner, set()).add(path)

    def _delete(self, number: int, path: str) -> None:
        self._touch_parent(number, path).discard(path.rpartition("/")[2])
        entry = self._entries.pop(path)
        self._count(path, entry, -1)
        owner = entry.owner
        if owner is not None:
            self._owned[owner].discard(path)
            if not self._owned[owner]:
                del self._owned[owner]

    def _count(self, path: str, entry: _Entry, times: int) -> None:
        if entry.owner is None and path != "/":
            self.kept_bytes += times * _bytes_of(path, entry.data)

    def _touch_parent(self, number: int, path: str) -> set[str]:
        entry = self._entries[parent_path(path)]
        entry.children_version += 1
        entry.children_at = number
        return entry.children

    # As JSON

    def encode(self) -> list[list[Any]]:
        """Returns all nodes, parents first."""
        return [
            [
                path,
                _text(each.data),
                each.owner,
                each.created_at,
                each.changed_at,
                each.children_at,
                each.version,
                each.children_version,
            ]
            for path, each in sorted(self._entries.items())
        ]

    @classmethod
    def decode(cls, number: int, nodes: Iterable[Sequence[Any]]) -> Tree:
        """Returns the tree in the output of :meth:`encode`.

        Raises ValueError, TypeError or KeyError for anything else.
        """
        tree = cls()
        tree.number = number
        for path, data, *numbers in nodes:
            tree._add(path, _Entry(_data(data), *numbers))
            if path != "/":
                tree._entries[parent_path(path)].children.add(path.rpartition("/")[2])
        return tree


def _bytes_of(path: str, data: bytes | None) -> int:
    return _NODE_BYTES + len(path.encode()) + len(data or b"")


def _text(data: bytes | None) -> str | list[str] | None:
    """Returns data in its JSON form: text, or Base64 in a list."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return [base64.b64encode(data).decode()]


def _data(text: str | list[str] | None) -> bytes | None:
    if text is None:
        return None
    return text.encode() if isinstance(text, str) else base64.b64decode(text[0])
