"""The layout of Aiven's plugin, below its setting ``key.prefix``.

::

    <topic>-<topic id>/<partition>/<start offset, 20 digits>-<segment id>.rsm-manifest
        .log       the segment in chunks, each compressed with zstd and encrypted if the plugin was set up so
        .indexes the small files, one after the other, each encrypted by itself
"""

from __future__ import annotations

import re
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from ...bucket.files.open_files import ObjectBytes
from ...bucket.files.parts import Parts
from ...bucket.stores.patience import PatientRanges, PatientStore
from ...bucket.stores.port import ListingStore
from ...errors import CorruptionError, ObjectMissingError
from ...format.files import file_names as names
from ..metadata_records import SegmentMetadata, TopicIdPartition
from ..objects import list_folder, read_whole
from ..port import SMALL_FILE_BYTES_MAX, TierSegment, TierSegments
from .chunks import PlainChunks, StoredSegment
from .keys import Keys, decrypted
from .manifest import MANIFEST_BYTES_MAX, Manifest, parse_manifest

MANIFEST = ".rsm-manifest"
INDEXES = ".indexes"
_ID = "[A-Za-z0-9_-]{22}"
_TOPIC = re.compile(rf"(?P<topic>.+)-(?P<id>{_ID})")
_OBJECT = re.compile(rf"(?P<start>[0-9]{{20}})-(?P<id>{_ID})(?P<kind>\.log|\.indexes|\.rsm-manifest)")
AT_ONCE = 16  # manifests that are read at the same time


def partition_folder(partition: TopicIdPartition) -> str:
    """Returns the folder of a partition below the plugin's ``key.prefix``."""
    return f"{partition.topic}-{partition.topic_id}/{partition.partition}"


def object_name(start_offset: int, segment_id: str, kind: str) -> str:
    """Returns the name of an object in its partition's folder; ``kind``: ``.log``, ``.indexes``, ``.rsm-manifest``."""
    return f"{start_offset:020d}-{segment_id}{kind}"


def parse_topic(folder: str) -> tuple[str, str] | None:
    """Returns the topic and its id in a folder's name; None for another name."""
    found = _TOPIC.fullmatch(folder)
    return (found["topic"], found["id"]) if found is not None and names.is_topic_name(found["topic"]) else None


class _Known(NamedTuple):
    segment: TierSegment
    stored: StoredSegment


class AivenTier:
    """A tier with the layout of Aiven's plugin: see :class:`port.Tier`."""

    def __init__(self, store: ListingStore, folder: str, keys: Keys) -> None:
        """``folder``: that of the topics' folders below the store's URL; "" if that is the URL."""
        self._store, self._folder, self._keys = store, folder, keys
        self._known: dict[str, _Known] = {}  # by the name of the .log
        self._patient, self._plain = PatientStore(store), PatientRanges(PlainChunks(store, keys, self._stored))
        self._parts = Parts(self._plain)

    @property
    def url(self) -> str:
        return self._store.url

    def partitions(self) -> list[TopicIdPartition]:
        found = []
        for folder in list_folder(self._store, self._folder).folders:
            topic = parse_topic(folder)
            if topic is not None:
                numbers = list_folder(self._store, self._below(folder)).folders
                found += [TopicIdPartition(*topic, int(each)) for each in numbers if each.isdecimal()]
        return sorted(found)

    def segments(
        self, partition: TopicIdPartition, metadata: Collection[SegmentMetadata] | None = None
    ) -> TierSegments:
        folder = self._below(partition_folder(partition))
        listed = {each.key for each in list_folder(self._store, folder).objects}
        whole, others = _sorted_out(listed)
        if metadata is not None:
            whole = [f"{folder}/{object_name(each.start_offset, each.segment_id, names.LOG)}" for each in metadata]
            others = []
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="commitlog tier") as threads:
            found = dict(zip(whole, threads.map(partial(self._segment, partition), whole), strict=True))
        self._keep(partition, listed | found.keys())
        others += [key for key, segment in found.items() if segment is None]
        return TierSegments([each for each in found.values() if each], [f"{self.url}/{key}" for key in others])

    def _keep(self, partition: TopicIdPartition, names_there: set[str]) -> None:
        """Forgets deleted segments."""
        for name in [name for name, known in [*self._known.items()] if known.segment.partition == partition]:
            if name not in names_there:
                self._known.pop(name, None)

    def content(self, segment: TierSegment) -> ObjectBytes:
        return ObjectBytes(segment.name, segment.size, self._parts, self._stored(segment.name).part_bytes)

    def read(self, segment: TierSegment, position: int, length: int) -> memoryview:
        return self._plain.read_range(segment.name, position, length, segment.size)

    def beside(self, segment: TierSegment, kind: str) -> bytes | None:
        stored = self._stored(segment.name)
        if kind not in stored.manifest.indexes:
            return None
        return self._patient.repeated(partial(self._read_beside, segment, stored, *stored.manifest.indexes[kind]))

    def _read_beside(self, segment: TierSegment, stored: StoredSegment, position: int, size: int) -> bytes:
        key = segment.name.removesuffix(names.LOG) + INDEXES
        if size > SMALL_FILE_BYTES_MAX:
            raise CorruptionError(f"a manifest names {size} bytes of an index", path=f"{self.url}/{key}")
        data = self._store.get_range(key, position, size)
        if stored.key is None or stored.manifest.encryption is None or not size:
            return bytes(data)
        try:
            return decrypted(stored.key, stored.manifest.encryption.aad, data)
        except CorruptionError as error:
            raise CorruptionError(error.reason, path=f"{self.url}/{key}", position=position) from None

    def _below(self, name: str) -> str:
        return f"{self._folder}/{name}" if self._folder else name

    def _stored(self, name: str) -> StoredSegment:
        return self._known[name].stored

    def _segment(self, partition: TopicIdPartition, name: str) -> TierSegment | None:
        """Returns the segment of a ``.log``; None if it has no manifest: its deletion is under way, or it is lost."""
        if name not in self._known:
            try:
                manifest = self._manifest(name.removesuffix(names.LOG) + MANIFEST, partition)
            except ObjectMissingError:
                return None
            key = None if manifest.encryption is None else self._keys.key_of(manifest.encryption)
            self._known[name] = _Known(_segment_of(manifest, name), StoredSegment(manifest, key))
        return self._known[name].segment

    def _manifest(self, key: str, partition: TopicIdPartition) -> Manifest:
        """Returns a manifest. Raises ObjectMissingError, and CorruptionError with its name."""
        try:
            found = parse_manifest(read_whole(self._patient, key, MANIFEST_BYTES_MAX))
        except CorruptionError as error:
            raise error if error.path else error.located(f"{self.url}/{key}") from None
        named = object_name(found.metadata.start_offset, found.metadata.segment_id, MANIFEST)
        if found.metadata.partition != partition or not key.endswith(f"/{named}"):
            raise CorruptionError("the manifest is of another segment: restore it", path=f"{self.url}/{key}")
        return found


def _segment_of(manifest: Manifest, name: str) -> TierSegment:
    about = manifest.metadata
    return TierSegment(
        about.partition,
        about.segment_id,
        about.start_offset,
        about.end_offset,
        about.leader_epochs,
        manifest.chunks.file_bytes,
        about.event_timestamp_ms,
        name,
        frozenset(manifest.indexes),
    )


def _sorted_out(listed: set[str]) -> tuple[list[str], list[str]]:
    """Returns the ``.log`` objects of complete copies, and the names of other objects.

    The plugin writes the manifest last.
    """
    stems: dict[str, set[str]] = {}
    for key in listed:
        if (parsed := _OBJECT.fullmatch(key.rpartition("/")[2])) is not None:
            stems.setdefault(key.removesuffix(parsed["kind"]), set()).add(parsed["kind"])
    whole = sorted(stem for stem, kinds in stems.items() if len(kinds) == len((names.LOG, INDEXES, MANIFEST)))
    other = sorted(stem + kind for stem, kinds in stems.items() if stem not in whole for kind in kinds)
    return [stem + names.LOG for stem in whole], other
