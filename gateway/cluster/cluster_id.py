"""The id of the cluster: made once, kept in the registry, and found again in the log directory of a broker."""

from __future__ import annotations

import base64
from contextlib import suppress
from uuid import uuid4

from ...registry import NodeExistsError, Registry, RegistryError
from ...registry.kafka_nodes import CLUSTER_ID, decode_cluster_id, encode_cluster_id
from ...storage import META_PROPERTIES_FILE, LogManager, LogStoreError, decode_meta_properties, read_file

_META_BYTES_MAX = 64 * 1024


class InconsistentClusterIdError(RegistryError):
    """The log directory belongs to another cluster than the registry."""


def find_cluster_id(registry: Registry, manager: LogManager) -> str:
    """Returns the id in the registry; if there is none, makes it: that of the directory's ``meta.properties``, or new.

    Raises InconsistentClusterIdError if the directory has another id.
    """
    own, path = _id_of_directory(manager), manager.path(META_PROPERTIES_FILE)
    found = registry.find(CLUSTER_ID)
    if found is None:
        with suppress(NodeExistsError):  # another node was faster
            registry.create(CLUSTER_ID, encode_cluster_id(own or _new_id()))
    cluster_id = decode_cluster_id(registry.get(CLUSTER_ID).data)
    if own is not None and own != cluster_id:
        raise InconsistentClusterIdError(
            f"{path}: the directory belongs to cluster {own}, and the registry to {cluster_id}; correct "
            "zookeeper.connect, or give the directory that belongs to it"
        )
    return cluster_id


def _new_id() -> str:
    """Returns 16 random bytes, a UUID, as Kafka writes them: 22 letters of URL-safe Base64."""
    return base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")


def _id_of_directory(manager: LogManager) -> str | None:
    """Returns the id that a broker left in the directory; None if there is none that can be read."""
    try:
        path = manager.path(META_PROPERTIES_FILE)
        return decode_meta_properties(read_file(manager.filesystem, path, _META_BYTES_MAX)).cluster_id
    except (LogStoreError, OSError):
        return None
