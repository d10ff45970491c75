"""The ids of the cluster and of its log directory: made once, and compared at each start."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID, uuid4

from ...registry.errors import NodeExistsError, RegistryError
from ...registry.kafka_nodes import CLUSTER_ID, decode_cluster_id, encode_cluster_id
from ...registry.port import Registry
from ...storage import (
    META_PROPERTIES_FILE,
    LogManager,
    LogStoreError,
    decode_meta_properties,
    encode_id,
    read_file,
    write_atomically,
)

DIRECTORY = "/commitlog/directory"
DIRECTORY_FILE = ".commitlog.directory"
_META_BYTES_MAX = 64 * 1024


class InconsistentClusterIdError(RegistryError):
    """The log directory belongs to another cluster than the registry."""


def find_cluster_id(registry: Registry, manager: LogManager) -> str:
    """Returns the id in the registry. If there is none, stores one: that of ``meta.properties``, or a new one.

    Raises InconsistentClusterIdError if the directory has another id.
    """
    own, path = _id_of_directory(manager), manager.path(META_PROPERTIES_FILE)
    found = registry.find(CLUSTER_ID)
    if found is None:
        with suppress(NodeExistsError):  # another node was faster
            registry.create(CLUSTER_ID, encode_cluster_id(own or encode_id(uuid4())))
    cluster_id = decode_cluster_id(registry.get(CLUSTER_ID).data)
    if own is not None and own != cluster_id:
        raise InconsistentClusterIdError(
            f"{path}: the directory belongs to cluster {own}, but the registry to {cluster_id}; correct "
            "zookeeper.connect, or give the directory that belongs to it"
        )
    return cluster_id


def check_directory(registry: Registry, manager: LogManager) -> None:
    """Raises an error unless all gateways of a registry in ZooKeeper serve the same log directory.

    The registry and the directory get a common id at the first start; if the two differ, it is
    InconsistentClusterIdError. Without this check, nodes would lead partitions that are not in their own directory.
    """
    found = registry.find(DIRECTORY)  # before the file is read, which others write before they create the node
    if found is None:
        with manager.root_lock():  # the first gateways of a directory may start at the same time
            own = _directory_id(manager) or encode_id(uuid4())
            write_atomically(manager.filesystem, manager.path(DIRECTORY_FILE), f"{own}\n".encode())
        with suppress(NodeExistsError):  # another node was faster
            registry.create(DIRECTORY, own.encode())
        found = registry.get(DIRECTORY)
    own, registered = _directory_id(manager), (found.data or b"").decode(errors="replace")
    if own != registered:
        raise InconsistentClusterIdError(
            f"{manager.path(DIRECTORY_FILE)}: the log directory has the id {own or 'none'}, and the registry is that "
            f"of {registered}: gateways with other directories need another chroot. If the directory was restored or "
            f"moved, and no gateway runs, delete the node {DIRECTORY}"
        )


def _directory_id(manager: LogManager) -> str:
    """Returns the id in the file of the directory; an empty text if it has none yet."""
    try:
        data = read_file(manager.filesystem, manager.path(DIRECTORY_FILE), _META_BYTES_MAX)
    except FileNotFoundError:
        return ""
    return data.decode(errors="replace").strip()


def _id_of_directory(manager: LogManager) -> str | None:
    """Returns the id that a broker left in the directory, or that of a log on an object store; None: it has none."""
    if manager.bucket is not None:
        return encode_id(UUID(hex=manager.bucket.state.log_id))
    try:
        path = manager.path(META_PROPERTIES_FILE)
        return decode_meta_properties(read_file(manager.filesystem, path, _META_BYTES_MAX)).cluster_id
    except (LogStoreError, OSError):
        return None
