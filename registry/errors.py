"""Errors of a registry; each is a LogStoreError, which commands print as it is."""

from __future__ import annotations

from ..storage import LogStoreError


class RegistryError(LogStoreError):
    """The registry refused an operation, or could not be reached."""


class InvalidPathError(RegistryError):
    """The path is not valid for a node."""


class NodeExistsError(RegistryError):
    """A node with this path exists already."""


class NoNodeError(RegistryError):
    """There is no node with this path."""


class NotEmptyError(RegistryError):
    """A node has children, so it cannot be deleted."""


class BadVersionError(RegistryError):
    """A node has another version than the caller expected."""


class ConnectionLossError(RegistryError):
    """The registry did not answer. It is unknown whether it carried out the operation: read the node to find out."""


class SessionExpiredError(RegistryError):
    """The session has ended, and its ephemeral nodes are deleted: register again."""
