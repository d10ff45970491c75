"""Helpers on a registry: set or create, register, delete if it exists, read a whole tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from .errors import ConnectionLossError, NodeExistsError, NoNodeError
from .port import Node, Registry, Watch


def put(registry: Registry, path: str, data: bytes | None) -> None:
    """Sets the data of a persistent node; creates it if it is missing."""
    while True:
        try:
            registry.set(path, data)
            return
        except NoNodeError:
            pass
        try:
            registry.create(path, data)
            return
        except NodeExistsError:  # another process was faster
            pass


def register(registry: Registry, path: str, data: bytes) -> None:
    """Creates an ephemeral node; succeeds also if an earlier call, whose connection was lost, has created it.

    Raises NodeExistsError if another session has a node of this path.
    """
    for is_last in (False, False, True):
        try:
            registry.create(path, data, ephemeral=True)
            return
        except ConnectionLossError:
            if is_last:
                raise
        except NodeExistsError:
            found = registry.find(path)
            if found is not None and found.owner == registry.session:
                return
            if found is not None or is_last:
                raise


def discard(registry: Registry, path: str) -> None:
    """Deletes a node; no error if it is missing."""
    with suppress(NoNodeError):
        registry.delete(path)


def delete_tree(registry: Registry, path: str) -> None:
    """Deletes a node and all below it, children first; no error if it is missing."""
    for each in sorted(tree_of(registry, path), reverse=True):
        discard(registry, each)


def children_if_any(registry: Registry, path: str, watch: Watch | None = None) -> list[str]:
    """Returns the names of a node's children, sorted; an empty list if the node is missing.

    ``watch``: as in :meth:`Registry.children`; if the node is missing, it is called when the node is created.
    """
    while True:
        try:
            return registry.children(path, watch)
        except NoNodeError:
            if watch is None or registry.find(path, watch) is None:
                return []


def walk(registry: Registry, path: str = "/") -> Iterator[tuple[str, Node]]:
    """Yields a node and all below it with their paths, parents first; nothing if it is missing."""
    found = registry.find(path)
    if found is None:
        return
    yield path, found
    for name in children_if_any(registry, path):
        yield from walk(registry, f"{path.rstrip('/')}/{name}")


def tree_of(registry: Registry, path: str = "/") -> Mapping[str, Node]:
    """Returns the nodes of :func:`walk` in a dict by path."""
    return dict(walk(registry, path))
