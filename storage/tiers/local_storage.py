"""The layout of Kafka's ``LocalTieredStorage``, below its setting ``dir``.

::

    kafka-tiered-storage/<topic>-<partition>-<topic id>/<start offset>-<segment id>.log
        .index, .timeindex, .snapshot, .leader_epoch_checkpoint, and .txnindex if transactions were aborted

Start offsets have 20 digits; those of older releases fewer. The end of a segment is stored nowhere, so it is read from
the records.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from ..bucket.files.open_files import ObjectBytes
from ..bucket.files.parts import Parts
from ..bucket.stores.patience import PatientStore
from ..bucket.stores.port import ListingStore, ObjectFacts
from ..errors import CorruptionError, ObjectMissingError
from ..format.files import checkpoints, file_names as names
from ..format.files.index_entries import decode_offset_entries
from .metadata_records import SegmentEpoch, SegmentMetadata, TopicIdPartition
from .objects import list_folder, read_whole
from .port import BESIDE, SMALL_FILE_BYTES_MAX, TierSegment, TierSegments
from .segment_end import end_after

FOLDER = "kafka-tiered-storage"
REQUIRED = (names.LOG, names.INDEX, names.TIME_INDEX, names.SNAPSHOT, names.EPOCHS)  # without one, a copy is not whole
_ID = "[A-Za-z0-9_-]{22}"
_PARTITION = re.compile(rf"(?P<topic>.+)-(?P<partition>[0-9]{{1,10}})-(?P<id>{_ID})")
_OBJECT = re.compile(rf"(?P<start>[0-9]{{1,20}})-(?P<id>{_ID})(?P<kind>\.[a-z_]+)")
AT_ONCE = 16  # segments whose ends are read at the same time


def partition_folder(partition: TopicIdPartition) -> str:
    """Returns the folder of a partition below :data:`FOLDER`."""
    return f"{partition.topic}-{partition.partition}-{partition.topic_id}"


def object_name(start_offset: int, segment_id: str, kind: str) -> str:
    """Returns the name of an object in its partition's folder; ``kind``: ``.log``, or one of ``BESIDE``."""
    return f"{start_offset:020d}-{segment_id}{kind}"


def parse_partition(folder: str) -> TopicIdPartition | None:
    """Returns the partition in a folder's name; None for another name."""
    found = _PARTITION.fullmatch(folder)
    if found is None or not names.is_topic_name(found["topic"]):
        return None
    return TopicIdPartition(found["topic"], found["id"], int(found["partition"]))


class _Copy(NamedTuple):
    """The objects of one copy of a segment, by kind."""

    start: int
    segment_id: str
    objects: dict[str, ObjectFacts]


class LocalStorageTier:
    """A tier with the layout of ``LocalTieredStorage``: see :class:`port.Tier`."""

    def __init__(self, store: ListingStore, folder: str) -> None:
        """``folder``: that of the partitions' folders below the store's URL; "" if that is the URL."""
        self._store, self.folder, self._patient = store, folder, PatientStore(store)
        self._parts = Parts(self._patient)
        self._known: dict[str, TierSegment] = {}  # by name: segments never change

    @property
    def url(self) -> str:
        return self._store.url

    def partitions(self) -> list[TopicIdPartition]:
        folders = list_folder(self._store, self.folder).folders
        return sorted(found for found in map(parse_partition, folders) if found is not None)

    def segments(
        self, partition: TopicIdPartition, metadata: Collection[SegmentMetadata] | None = None
    ) -> TierSegments:
        copies = self._copies(partition)
        if metadata is not None:
            return self._of_metadata(metadata, {each.segment_id: each for each in copies})
        whole = [each for each in copies if all(kind in each.objects for kind in REQUIRED)]
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="commitlog tier") as threads:
            found = list(threads.map(partial(self._segment, partition), whole))
        self._keep(partition, {each.name for each in found})
        others = [facts.key for each in copies if each not in whole for facts in each.objects.values()]
        return TierSegments(found, [f"{self.url}/{key}" for key in sorted(others)])

    def _of_metadata(self, metadata: Collection[SegmentMetadata], listed: Mapping[str, _Copy]) -> TierSegments:
        found, lost = [], []
        for each in metadata:
            key = self._key(each.partition, object_name(each.start_offset, each.segment_id, names.LOG))
            copy = listed.get(each.segment_id)
            log = copy.objects.get(names.LOG) if copy else None
            log = log or self._patient.head(key)
            if log is None:
                lost.append(f"{self.url}/{key}")
            else:
                kinds = frozenset(copy.objects) - {names.LOG} if copy and len(copy.objects) > 1 else frozenset(BESIDE)
                found.append(_named(each, log, kinds))
        return TierSegments(found, lost)

    def _keep(self, partition: TopicIdPartition, listed: set[str]) -> None:
        """Forgets deleted segments."""
        for name in [name for name, known in [*self._known.items()] if known.partition == partition]:
            if name not in listed:
                self._known.pop(name, None)

    def content(self, segment: TierSegment) -> ObjectBytes:
        return ObjectBytes(segment.name, segment.size, self._parts)

    def read(self, segment: TierSegment, position: int, length: int) -> memoryview:
        return self._patient.read_range(segment.name, position, length, segment.size)

    def beside(self, segment: TierSegment, kind: str) -> bytes | None:
        if kind not in segment.kinds:
            return None
        try:
            return read_whole(self._patient, segment.name.removesuffix(names.LOG) + kind, SMALL_FILE_BYTES_MAX)
        except ObjectMissingError:
            if kind == names.TXN_INDEX:  # there is none if no transaction was aborted
                return None
            raise

    def _key(self, partition: TopicIdPartition, name: str) -> str:
        return "/".join(filter(None, (self.folder, partition_folder(partition), name)))

    def _copies(self, partition: TopicIdPartition) -> list[_Copy]:
        listed = list_folder(self._store, self._key(partition, "").rstrip("/")).objects
        return _copies_in(listed)

    def _segment(self, partition: TopicIdPartition, copy: _Copy) -> TierSegment:
        """Returns a complete copy; at the first call, reads its end and its leader epochs."""
        log = copy.objects[names.LOG]
        found = self._known.get(log.key)
        if found is None:
            found = self._known[log.key] = self._read_facts(partition, copy)
        return found

    def _read_facts(self, partition: TopicIdPartition, copy: _Copy) -> TierSegment:
        log = copy.objects[names.LOG]
        index, epochs = (read_whole(self._patient, *_small(copy, kind)) for kind in (names.INDEX, names.EPOCHS))
        _, positions = decode_offset_entries(copy.start, index)
        from_ = int(positions.max(initial=0))
        path = f"{self.url}/{log.key}"
        read = partial(self._read_listed, log)
        end = end_after(path, read, from_ if from_ < log.size else 0, log.size, copy.start)
        own = _epochs_from(epochs, copy.start, f"{self.url}/{copy.objects[names.EPOCHS].key}")
        kinds = frozenset(copy.objects) - {names.LOG}
        return TierSegment(
            partition, copy.segment_id, copy.start, end - 1, own, log.size, log.modified_ms, log.key, kinds
        )

    def _read_listed(self, log: ObjectFacts, position: int, length: int) -> memoryview:
        return self._patient.read_range(log.key, position, length, log.size)


def _named(metadata: SegmentMetadata, log: ObjectFacts, kinds: frozenset[str]) -> TierSegment:
    return TierSegment(
        metadata.partition,
        metadata.segment_id,
        metadata.start_offset,
        metadata.end_offset,
        metadata.leader_epochs,
        log.size,
        metadata.event_timestamp_ms,
        log.key,
        kinds,
    )


def _small(copy: _Copy, kind: str) -> tuple[str, int, int]:
    facts = copy.objects[kind]
    return facts.key, SMALL_FILE_BYTES_MAX, facts.size


def _copies_in(listed: Iterable[ObjectFacts]) -> list[_Copy]:
    found: dict[tuple[int, str], _Copy] = {}
    for facts in listed:
        parsed = _OBJECT.fullmatch(facts.key.rpartition("/")[2])
        if parsed is not None and parsed["kind"] in (names.LOG, *BESIDE):
            key = int(parsed["start"]), parsed["id"]
            found.setdefault(key, _Copy(*key, {})).objects[parsed["kind"]] = facts
    return [found[key] for key in sorted(found)]


def _epochs_from(data: bytes, start: int, path: str) -> tuple[SegmentEpoch, ...] | None:
    """Returns the leader epochs of a segment, from the file with those of its log up to its end; None: there are none.

    Raises CorruptionError, with the object's name.
    """
    try:
        entries = checkpoints.decode_leader_epochs(data)
    except CorruptionError as error:
        raise error.located(path) from None
    before = [each for each in entries if each.start_offset <= start][-1:]
    inside = [each for each in entries if each.start_offset > start]
    return tuple(SegmentEpoch(each.epoch, max(start, each.start_offset)) for each in (*before, *inside)) or None
