"""Reads topic settings from ``__cluster_metadata-0``, a KRaft broker's metadata log: its newest snapshot and log.

Every KRaft broker keeps this log in ``metadata.log.dir``, by default the first of its ``log.dirs``. Its records are
messages of the controllers: a frame of three varints, then a flexible message (MetadataRecordSerde). Only messages
about settings are decoded: TopicRecord, PartitionRecord, ConfigRecord, RemoveTopicRecord, and begin and end of
controllers' transactions.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...clock import SystemClock
from ...config import LogConfig
from ...errors import CorruptionError, CorruptRecordError, InvalidRecordError
from ...filesystem.local import LocalFileSystem
from ...filesystem.operations import read_file
from ...filesystem.port import FileStatus, FileSystem
from ...format.files import file_names
from ...format.internal.message_schema import INT32, Field, FieldDecoder, Int, String, Struct, Uuid
from ...segment.reader import SegmentReader
from ...segment.walk import LogContext
from ..topics_file import Known
from .found import FoundSettings, TopicSettings

logger = logging.getLogger(__name__)

METADATA_PARTITION = "__cluster_metadata-0"
PROPERTIES_BYTES_MAX = 1024 * 1024
FRAME_VERSION = 1
TOPIC, PARTITION, CONFIG, REMOVE_TOPIC = 2, 3, 4, 9  # Kafka's MetadataRecordType
BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION = 23, 24, 25
OF_TOPIC, OF_BROKER = 2, 4  # Kafka's ConfigResource.Type
ALL_BROKERS = ""

_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")  # end offset and epoch


def read_metadata_log(directory: str, filesystem: FileSystem) -> FoundSettings:
    """Returns the settings in the metadata log of a log directory; none if there is no such log or it is damaged.

    Logs a warning about damage. The last records may be those of a controller that lost its leadership, which the log
    alone does not show. Caches the result for local files until they change.
    """
    path = file_names.join(directory, METADATA_PARTITION)
    status = filesystem.status(path)
    if status is None or not status.is_directory:
        return FoundSettings()
    if not isinstance(filesystem, LocalFileSystem):
        return _found(directory, path, filesystem)
    return _found_here(
        directory, path, tuple(filesystem.status(file_names.join(path, name)) for name in filesystem.list(path))
    )


@lru_cache(maxsize=4)
def _found_here(directory: str, path: str, _files: tuple[FileStatus | None, ...]) -> FoundSettings:
    return _found(directory, path, LocalFileSystem())


def _found(directory: str, path: str, filesystem: FileSystem) -> FoundSettings:
    try:
        state = _State()
        for message in _messages(_values(path, filesystem)):
            message.apply(state)
        return state.found(_node_id(directory, filesystem))
    except CorruptionError as error:
        logger.warning("%s: the broker's topic settings are unknown, because its metadata is damaged: %s", path, error)
        return FoundSettings()


def _node_id(directory: str, filesystem: FileSystem) -> str | None:
    try:
        data = read_file(filesystem, file_names.join(directory, file_names.META_PROPERTIES_FILE), PROPERTIES_BYTES_MAX)
    except FileNotFoundError:
        return None
    found = re.search(rb"^node\.id=(\d+)\s*$", data, re.MULTILINE)
    return None if found is None else found[1].decode()


# The files


class _Snapshot(SegmentReader):
    """A ``.checkpoint`` file, which has record batches like a ``.log``."""

    def __init__(self, context: LogContext, name: str) -> None:
        super().__init__(context, 0)
        self._name = name

    def path(self, kind: str) -> str:
        return file_names.join(self.context.directory, self._name)


def _values(directory: str, filesystem: FileSystem) -> Iterator[bytes]:
    """Yields the values of the newest snapshot's records, then of those in the log after it. Raises CorruptionError."""
    context = LogContext(directory, LogConfig(), SystemClock(), filesystem, writable=False)
    listing = filesystem.list(directory)
    end_offset, snapshot = max(
        ((int(found[1]), name) for name in listing if (found := _SNAPSHOT.fullmatch(name))), default=(0, None)
    )
    bases = sorted(
        base
        for name in listing
        if name.endswith(file_names.LOG) and (base := file_names.base_offset_of(name)) is not None
    )
    if bases and bases[0] > end_offset:
        reason = f"the log begins at offset {bases[0]}, and no snapshot has the records below"
        raise CorruptRecordError(reason, path=directory, position=0)
    if snapshot is not None:
        yield from _values_in(_Snapshot(context, snapshot), 0)
    for base in bases:
        yield from _values_in(SegmentReader(context, base), end_offset)


def _values_in(segment: SegmentReader, from_offset: int) -> Iterator[bytes]:
    try:
        for window in segment.batches():
            rows = np.flatnonzero(~window.headers.is_control & (window.headers.table["last_offset"] >= from_offset))
            records = segment.decode(window, rows, ("value",)).records
            assert records.values is not None
            for offset, value in zip(records.offsets.tolist(), records.values.to_list(), strict=True):
                if offset >= from_offset and value is not None:
                    yield value
    finally:
        segment.close()


# The messages


@dataclass
class _State:
    topics: dict[str, str] = field(default_factory=dict)  # names by id
    partitions: dict[str, set[int]] = field(default_factory=dict)  # by topic id
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)  # by type and name of the resource

    def found(self, node_id: str | None) -> FoundSettings:
        """Returns the settings; those of the broker ``node_id`` override those of all brokers."""
        topics = {
            name: TopicSettings(self.configs.get((OF_TOPIC, name), {}), Known.OWN) for name in self.topics.values()
        }
        broker: Mapping[str, str] = {
            **self.configs.get((OF_BROKER, ALL_BROKERS), {}),
            **(self.configs.get((OF_BROKER, node_id), {}) if node_id is not None else {}),
        }
        partitions = {self.topics[each]: len(found) for each, found in self.partitions.items() if each in self.topics}
        return FoundSettings(topics, broker, partitions)


class _Topic(NamedTuple):
    name: str
    topic_id: str

    def apply(self, state: _State) -> None:
        state.topics[self.topic_id] = self.name


class _Partition(NamedTuple):
    partition_id: int
    topic_id: str

    def apply(self, state: _State) -> None:
        state.partitions.setdefault(self.topic_id, set()).add(self.partition_id)


class _Config(NamedTuple):
    resource_type: int
    resource_name: str
    name: str
    value: str | None

    def apply(self, state: _State) -> None:
        configs = state.configs.setdefault((self.resource_type, self.resource_name), {})
        if self.value is None:
            configs.pop(self.name, None)
        else:
            configs[self.name] = self.value


class _RemoveTopic(NamedTuple):
    topic_id: str

    def apply(self, state: _State) -> None:
        state.partitions.pop(self.topic_id, None)
        state.configs.pop((OF_TOPIC, state.topics.pop(self.topic_id, "")), None)


_Message = _Topic | _Partition | _Config | _RemoveTopic

_SCHEMAS = {
    TOPIC: Struct(_Topic, (Field("name", String()), Field("topic_id", Uuid()))),
    PARTITION: Struct(_Partition, (Field("partition_id", INT32), Field("topic_id", Uuid()))),  # and further fields
    CONFIG: Struct(
        _Config,
        (
            Field("resource_type", Int("b")),
            Field("resource_name", String()),
            Field("name", String()),
            Field("value", String(nullable=True)),
        ),
    ),
    REMOVE_TOPIC: Struct(_RemoveTopic, (Field("topic_id", Uuid()),)),
}


def _messages(values: Iterable[bytes]) -> Iterator[_Message]:
    """Yields the messages in record values, without those of transactions that a controller aborted or did not end."""
    pending: list[_Message] | None = None
    for value in values:
        reader = FieldDecoder(value, flexible=True)
        frame, kind, version = (reader.unsigned_varint() for _ in range(3))
        if frame != FRAME_VERSION:
            raise InvalidRecordError(f"a metadata record has the unknown frame version {frame}", position=0)
        if kind == BEGIN_TRANSACTION:
            pending = []
        elif kind in (END_TRANSACTION, ABORT_TRANSACTION):
            yield from (pending or ()) if kind == END_TRANSACTION else ()
            pending = None
        elif kind in _SCHEMAS:
            reader.flexible = kind != PARTITION  # its tags follow fields that are not read
            message: _Message = _SCHEMAS[kind].read(reader, version)
            if pending is None:
                yield message
            else:
                pending.append(message)
