"""Writes segments to a tier in the layout of ``LocalTieredStorage``, and deletes them.

Each object is read back: nothing counts as copied before its bytes were compared.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..bucket.stores.patience import PatientStore
from ..bucket.stores.port import ObjectStore
from ..errors import StorageError
from ..format.files import file_names as names
from .local_storage import FOLDER, object_name, partition_folder
from .metadata_records import TopicIdPartition

READ_BACK_BYTES = 8 << 20
# The .log is last: a reader that finds it finds the others. Readers that only look at names require all but the
# transaction index.
ORDER = (names.TXN_INDEX, names.INDEX, names.TIME_INDEX, names.SNAPSHOT, names.EPOCHS, names.LOG)


def segment_keys(partition: TopicIdPartition, start_offset: int, segment_id: str) -> dict[str, str]:
    """Returns the names of a segment's objects by suffix."""
    folder = f"{FOLDER}/{partition_folder(partition)}"
    return {kind: f"{folder}/{object_name(start_offset, segment_id, kind)}" for kind in ORDER}


def put_segment(
    store: ObjectStore, partition: TopicIdPartition, start_offset: int, segment_id: str, files: Mapping[str, bytes]
) -> None:
    """Writes the objects of a segment, and compares them with the store's content afterwards. Durable on return.

    ``files``: their content by suffix, in which only ``.txnindex`` may be missing. If the process is killed in between,
    some objects exist; writing the same segment again replaces them. Raises ObjectStoreError, with the object's name,
    and StorageError if an object differs from what was written.
    """
    keys = segment_keys(partition, start_offset, segment_id)
    written = [(keys[kind], files[kind]) for kind in ORDER if kind in files]
    patient = PatientStore(store)
    for key, data in written:
        patient.put(key, data)
    for key, data in written:
        _compare(patient, key, data)


def delete_segment(store: ObjectStore, partition: TopicIdPartition, start_offset: int, segment_id: str) -> None:
    """Deletes the objects of a segment, the ``.log`` first; missing ones are not an error."""
    keys = segment_keys(partition, start_offset, segment_id)
    PatientStore(store).delete([keys[kind] for kind in reversed(ORDER)])


def _compare(store: PatientStore, key: str, data: bytes) -> None:
    facts = store.head(key)
    if facts is None or facts.size != len(data):
        there = "is not there" if facts is None else f"has {facts.size:,} bytes"
        raise StorageError(f"{store.url}/{key}: the object {there} after {len(data):,} bytes were written to it")
    for start in range(0, len(data), READ_BACK_BYTES):
        wanted = data[start : start + READ_BACK_BYTES]
        if store.get_range(key, start, len(wanted)) != wanted:
            raise StorageError(f"{store.url}/{key}: from position {start} on, the object is not what was written to it")
