"""Errors of a registry; each is a LogStoreError, which commands print as it is."""

from __future__ import annotations

from ..storage import LogStoreError


class RegistryError(LogStoreError):
    """The registry refused an operation, or could not be reached."""


class InvalidPathError(RegistryError):
    """A path that no node can have."""


class NodeExistsError(RegistryError):
    """There is a node of this path."""


class NoNodeError(RegistryError):
    """There is no node of this path."""


class NotEmptyError(RegistryError):
    """A node has children, so it is not deleted."""


class BadVersionError(RegistryError):
    """A node has another version than the caller expected."""


class ConnectionLossError(RegistryError):
    """The registry did not answer. Whether it did what was asked is unknown: read it back."""


class SessionExpiredError(RegistryError):
    """The session has ended, and its ephemeral nodes are gone: register again."""
