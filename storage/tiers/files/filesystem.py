"""TieredFiles: shows a tier as a log directory, or a log directory with the segments that only its tier has.

::

    topics.json                                  made, where there is no log directory
    <topic>-<partition>/<base>.log, .index, .timeindex, .txnindex    of the tier, below the first local segment
    <topic>-<partition>/<end>.snapshot           of the tier, where there is no local segment
    <topic>-<partition>/leader-epoch-checkpoint, partition.metadata     made, without a log directory

Everything else is that of the log directory. The tier is listed when a reader opens a partition, and by
:meth:`TieredFiles.catch_up`. All operations that would write raise io.UnsupportedOperation.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from threading import RLock

from ...bucket.files.open_files import OpenFile
from ...bucket.files.read_only import ReadOnlyFileSystem
from ...errors import CorruptionError, ObjectLostError, ObjectMissingError, SegmentRemovedError
from ...filesystem.local import LocalFileSystem
from ...filesystem.operations import read_file
from ...filesystem.port import File, FileStatus, FileSystem, MadeFileSystem, OpenMode
from ...format.files import checkpoints, file_names as names
from ...format.files.checkpoints import EpochEntry
from ..address import TierAddress, parse_tier_address
from ..choosing import choose
from ..known_segments import KnownSegments
from ..metadata_records import TopicIdPartition
from ..opening import open_tier
from ..port import Tier, TierSegment
from .view import PartitionView, made

logger = logging.getLogger(__name__)

Names = list[str]  # in the class, list is a method
Epochs = list[EpochEntry]

TOPICS_FILE = "topics.json"
SMALL_FILE_BYTES_MAX = 256 << 20
TIERS_KEPT = 8


class TieredFiles(ReadOnlyFileSystem):
    """The files of one tier, and of a log directory above it. For any thread of one process."""

    def __init__(self, address: TierAddress, tier: Tier | None = None, local: FileSystem | None = None) -> None:
        """Raises the errors of :func:`open_tier`. ``tier``, ``local``: used instead of those in the address."""
        self.address = address
        self.tier = tier or open_tier(address.url, address.keys)
        self._local = (local or LocalFileSystem()) if address.log is not None else None
        self._root = address.log or self.tier.url
        self._lock = RLock()
        self._partitions: dict[str, dict[int, TopicIdPartition]] = {}  # by topic
        self._views: dict[str, PartitionView] = {}  # by directory
        self._told: set[str] = set()  # what was logged
        self._known_segments = KnownSegments()
        self.catch_up()

    def __reduce__(self) -> tuple[Callable[[str], MadeFileSystem], tuple[str]]:
        """Pickles only the address, by which another process opens the tier."""
        return open_tiered_files, (str(self.address),)

    @property
    def root(self) -> str:
        """The path of the log directory, or else the tier's URL."""
        return self._root

    def catch_up(self) -> None:
        """Lists the partitions of the tier; the next access to a partition lists its segments."""
        found = _by_topic(self.tier.partitions(), self.address.topic_ids)
        with self._lock:
            self._partitions = {topic: self._of_one_id(topic, ids) for topic, ids in found.items()}
            self._views.clear()

    def pin(self) -> None:
        """Does nothing: see ``PinnedTier``, for the reader of one partition."""

    def is_made(self, path: str) -> bool:
        """Returns False: the content of a tier was not checked before."""
        return False

    def holds_from_log_start(self, directory: str) -> bool:
        """Whether the tier has segments of a partition: then it has all that the log directory lacks.

        Only a log directory knows the log start.
        """
        at = None if self._local is None else self.partition_at(directory.rstrip("/"))
        if self._local is None or at is None or at not in self._partitions.get(at.topic, {}).values():
            return False
        return self._local.status(names.join(self._root, names.LOG_START_OFFSET_CHECKPOINT)) is not None

    def shown_path(self, path: str) -> str:
        """Returns the URL of the object with a file's bytes; for a file of the directory, its path."""
        directory, name = _split(path)
        with self._lock:
            view = self._views.get(directory)
        return (view.object_name(name) if view is not None else None) or path

    # Files

    def list(self, directory: str) -> list[str]:
        if directory.rstrip("/") == self._root:
            return sorted([TOPICS_FILE, *self._directories()]) if self._local is None else self._local.list(directory)
        return self.list_in(self.view(directory), directory)

    def list_in(self, view: PartitionView | None, directory: str) -> Names:
        """Returns the names in a partition's directory, as the tier was at some time."""
        local = [] if self._local is None else self._local.list(directory)
        if view is None and self._local is None:
            raise FileNotFoundError(f"{directory}: no such directory")
        shown = [] if view is None else [*view.names()]
        beside = [names.PARTITION_METADATA_FILE, names.LEADER_EPOCH_CHECKPOINT] if self._local is None else []
        return sorted({*local, *shown, *beside})

    def status(self, path: str) -> FileStatus | None:
        directory, name = _split(path)
        if self._local is None and path.rstrip("/") == self._root:
            return FileStatus(0, 0, 0, is_directory=True)
        if self._local is None and (at := self.partition_at(path)) is not None:
            return FileStatus(0, 0, zlib.crc32(at.topic_id.encode()), is_directory=True)
        return self.status_in(self.view(directory), name, path)

    def status_in(self, view: PartitionView | None, name: str, path: str) -> FileStatus | None:
        """Like :meth:`status`, for a name in a partition's directory, as the tier was at some time."""
        if view is not None and (piece := view.piece_of(name)) is not None:
            size = view.size(name)
            inode = zlib.crc32(piece.segment.segment_id.encode())
            return None if size is None else FileStatus(size, 0, inode, is_directory=False)
        if self._local is not None:
            return self._local.status(path)
        data = self._made(view, name, path)
        return None if data is None else FileStatus(len(data), 0, 0, is_directory=False)

    def open(self, path: str, mode: OpenMode) -> File:
        directory, name = _split(path)
        return self.open_in(self.view(directory), name, path, mode)

    def open_in(self, view: PartitionView | None, name: str, path: str, mode: OpenMode) -> File:
        """Like :meth:`open`, for a name in a partition's directory, as the tier was at some time."""
        if mode != "read":
            self.make_directory(path)  # raises
        if view is not None and view.has(name):
            return self._open_shown(view, name, path)
        if self._local is not None:
            return self._local.open(path, mode)
        data = self._made(view, name, path)
        if data is None:
            raise FileNotFoundError(f"{path}: no such file")
        return OpenFile(path, *made(data), partial(self._missing, path))

    def is_link(self, path: str) -> bool:
        return self._local is not None and self._local.is_link(path)

    def _open_shown(self, view: PartitionView, name: str, path: str) -> File:
        base, kind = names.offset_in(name), name[names.OFFSET_DIGITS :]
        try:
            if kind == names.LOG:
                size = view.size(name)
                return OpenFile(path, size or 0, view.content(base), partial(self._missing, path))
            data = view.small(name)
        except ObjectMissingError as error:
            raise self._missing(path, error) from error
        if data is None:
            raise FileNotFoundError(f"{path}: no such file")
        return OpenFile(path, *made(data), partial(self._missing, path))

    def _made(self, view: PartitionView | None, name: str, path: str) -> bytes | None:
        """Returns the content of a computed file, if there is no log directory; None for others."""
        if path == names.join(self._root, TOPICS_FILE):
            return self._topics_file()
        if view is None:
            return None
        if name == names.PARTITION_METADATA_FILE:
            return checkpoints.encode_partition_metadata(checkpoints.decode_id(view.partition.topic_id))
        if name == names.LEADER_EPOCH_CHECKPOINT:
            return view.epochs_file()
        return view.small(name) if names.base_offset_of(name) is not None else None

    def _missing(self, path: str, error: ObjectMissingError) -> Exception:
        """Returns the error for a missing object: its segment was deleted, or if the tier still has it, damage."""
        directory, name = _split(path)
        now = self.view(directory, fresh=True)
        if now is not None and now.has(name):
            return ObjectLostError(
                f"the tier lacks an object of a segment that it has: restore it ({error})", path=path
            )
        return SegmentRemovedError(f"{path}: the segment was deleted from the tier ({error}); open the log again")

    # What the tier has

    def _directories(self) -> Names:
        return [
            names.partition_directory(topic, number)
            for topic, found in self._partitions.items()
            for number in range(max(found) + 1)
        ]

    def _topics_file(self) -> bytes:
        """Returns ``topics.json``; it states that no setting is known, so defaults are not assumed."""
        topics = {
            topic: {"id": next(iter(found.values())).topic_id, "partitions": max(found) + 1, "configs": {}}
            for topic, found in self._partitions.items()
        }
        return json.dumps({"version": 1, "topics": topics, "settings_elsewhere": sorted(topics)}).encode()

    def partition_at(self, directory: str) -> TopicIdPartition | None:
        """Returns the partition of a directory; None if it is not a partition's, or the tier has nothing of it.

        Without a log directory, a partition that the tier lacks, below the last one, counts as empty.
        """
        parent, name = _split(directory.rstrip("/"))
        parsed = names.parse_partition_directory(name)
        if parent.rstrip("/") != self._root.rstrip("/") or parsed is None or parsed.kind != "plain":
            return None
        found = self._partitions.get(parsed.topic, {})
        if self._local is not None:
            return self._known_locally(directory, parsed.topic, parsed.partition)
        topic_id = next(iter(found.values())).topic_id if found else ""
        return (
            TopicIdPartition(parsed.topic, topic_id, parsed.partition)
            if parsed.partition <= max(found, default=-1)
            else None
        )

    def _known_locally(self, directory: str, topic: str, number: int) -> TopicIdPartition | None:
        """Returns a partition of the log directory with its own topic id, or else with that of the tier."""
        assert self._local is not None
        path = names.join(directory, names.PARTITION_METADATA_FILE)
        try:
            topic_id = checkpoints.decode_partition_metadata(read_file(self._local, path, 4096))
        except (FileNotFoundError, NotADirectoryError):
            return self._partitions.get(topic, {}).get(number)
        except CorruptionError as error:
            raise error.located(path) from None
        return TopicIdPartition(topic, checkpoints.encode_id(topic_id), number)

    def view(self, directory: str, *, fresh: bool = False) -> PartitionView | None:
        """Returns the files that the tier adds to a directory; None if that is no partition's, or not in the tier.

        ``fresh``: list the tier again. That is also done if the first local segment has changed: earlier ones are then
        in the tier, because a broker copies them first.
        """
        directory = directory.rstrip("/")
        at = self.partition_at(directory)
        if at is None:
            return None
        stop, log_start = self._first_local(directory), self._log_start(at)
        with self._lock:
            known = None if fresh else self._views.get(directory)
        if known is None or (known.partition, known.stop, known.log_start) != (at, stop, log_start):
            known = self._look(directory, at, stop, log_start)
            with self._lock:
                self._views[directory] = known
        return known

    def last_offset(self, directory: str) -> int | None:
        """Returns the last offset of a partition's log that the tier has; None if it has nothing of the log."""
        at = self.partition_at(directory.rstrip("/"))
        if at is None:
            return None
        pieces = self._look(directory.rstrip("/"), at, None, self._log_start(at)).pieces
        return max((each.next_offset - 1 for each in pieces.values()), default=None)

    def _look(self, directory: str, at: TopicIdPartition, stop: int | None, log_start: int) -> PartitionView:
        if self._local is not None:
            self._known_segments.read_directory(self._root, self._local)
        found = self.tier.segments(at, self._known_segments.finished(at))
        for name in found.incomplete:
            self._tell(
                f"{name}: passed over, since its segment lacks objects: it is being copied or deleted, or was lost"
            )
        epochs = self._local_epochs(directory) if self._local is not None else _newest_epochs(self.tier, found.whole)
        pieces = choose(found.whole, epochs, log_start, stop)
        by_base = {each.segment.start_offset: each for each in pieces}
        return PartitionView(self.tier, at, by_base, stop, log_start, tuple(epochs))

    def _first_local(self, directory: str) -> int | None:
        if self._local is None:
            return None
        listed = names.by_suffix(names.segment_files(self._local.list(directory)))
        return min(listed[names.LOG], default=None)

    def _log_start(self, at: TopicIdPartition) -> int:
        """Returns the log start that a broker has in its checkpoint; 0 if it has none."""
        if self._local is None:
            return 0
        path = names.join(self._root, names.LOG_START_OFFSET_CHECKPOINT)
        try:
            found = checkpoints.decode_offsets(read_file(self._local, path, SMALL_FILE_BYTES_MAX))
        except (FileNotFoundError, CorruptionError):  # a damaged one counts as empty, and is reported where it is read
            return 0
        return found.get(names.TopicPartition(at.topic, at.partition), 0)

    def _local_epochs(self, directory: str) -> Epochs:
        assert self._local is not None
        path = names.join(directory, names.LEADER_EPOCH_CHECKPOINT)
        try:
            return checkpoints.decode_leader_epochs(read_file(self._local, path, SMALL_FILE_BYTES_MAX))
        except (FileNotFoundError, CorruptionError):  # as above
            return []

    def _of_one_id(self, topic: str, ids: dict[str, dict[int, TopicIdPartition]]) -> dict[int, TopicIdPartition]:
        """Returns the partitions of the topic with this name; of several, the one with the newest copies."""
        if len(ids) == 1:
            return next(iter(ids.values()))
        newest = {topic_id: _newest_ms(self.tier, found.values()) for topic_id, found in ids.items()}
        chosen = max(newest, key=lambda each: (newest[each], each))
        if self._local is None:
            self._tell(
                f"{self.tier.url}: has {len(ids)} topics named {topic}, with the ids {', '.join(sorted(ids))}: reading "
                f"{chosen}, which has the newest segment; to read another one, add ?id=… to the address of the tier"
            )
        return ids[chosen]

    def _tell(self, text: str) -> None:
        """Logs a warning, once in a process."""
        if text not in self._told:
            self._told.add(text)
            logger.warning("%s", text)


def _split(path: str) -> tuple[str, str]:
    directory, _, name = path.rpartition("/")
    return directory, name


def _by_topic(
    partitions: list[TopicIdPartition], wanted: tuple[str, ...]
) -> dict[str, dict[str, dict[int, TopicIdPartition]]]:
    """Returns partitions by topic, topic id and number; for a topic with a ``wanted`` id, only those of that id."""
    found: dict[str, dict[str, dict[int, TopicIdPartition]]] = {}
    for each in partitions:
        found.setdefault(each.topic, {}).setdefault(each.topic_id, {})[each.partition] = each
    for topic, ids in found.items():
        if not ids.keys().isdisjoint(wanted):
            found[topic] = {topic_id: numbers for topic_id, numbers in ids.items() if topic_id in wanted}
    return found


def _newest_ms(tier: Tier, partitions: Iterable[TopicIdPartition]) -> int:
    return max((each.event_ms for at in partitions for each in tier.segments(at).whole), default=-1)


def _newest_epochs(tier: Tier, segments: list[TierSegment]) -> list[EpochEntry]:
    """Returns the leader epochs of the log, from its newest leader's segment that reaches farthest."""
    if not segments:
        return []
    newest = max(segments, key=lambda each: (each.epochs[-1].epoch if each.epochs else -1, each.end_offset))
    data = tier.beside(newest, names.EPOCHS)
    if not data:
        return []
    try:
        return checkpoints.decode_leader_epochs(data)
    except CorruptionError as error:
        raise error.located(f"{tier.url}/{newest.name.removesuffix(names.LOG)}{names.EPOCHS}") from None


_of_this_process: dict[str, TieredFiles] = {}  # by address, in order of last use; _opening guards it
_opening = RLock()


def open_tiered_files(address: str) -> TieredFiles:
    """Returns the file system that shows the tier at an address, up to date. Raises the errors of :func:`open_tier`."""
    with _opening:
        known = _of_this_process.pop(address, None)
        if known is None:
            known = TieredFiles(parse_tier_address(address))
        else:
            known.catch_up()
        _of_this_process[address] = known
        while len(_of_this_process) > TIERS_KEPT:
            _of_this_process.pop(next(iter(_of_this_process)))
        return known
