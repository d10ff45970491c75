"""The end of the last file after a crash, for a writer that recovers and for readers.

A writer recovers a log that was not closed in order: like Kafka 0.7.2, it cuts the last file after its last good
message. It does not decompress, and keeps every message with the right checksum, even one that was not synced before
the crash. A reader changes nothing: it skips an unfinished write and reports damage. No checksum covers the size of an
entry. An entry that reaches beyond the end of the file is therefore an unfinished write only if no sound message
follows it: otherwise its size is damaged, and the messages after it would be lost in silence.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import numpy as np

from ...storage.errors import CorruptionError
from ...storage.filesystem.operations import is_zero
from ...storage.filesystem.port import File
from ...storage.format.checksums import crc32
from ...storage.format.tables import Bytes, Int64s
from ...storage.kernels import stop_reasons
from .entries import ENTRY_BYTES_MIN, MESSAGE_BYTES_MIN, SIZE_BYTES, as_buffer
from .segments import Rest, end_of, rest_after, windows

logger = logging.getLogger(__name__)

NOT_OURS = (stop_reasons.UNKNOWN_MAGIC, stop_reasons.NO_CHECKSUM)
SEARCH_BYTES = 1 << 20
CHECKED_BYTES_MAX = 256 << 20  # limit of bytes for checksums; beyond it, the rest counts as damaged


class Recovered(NamedTuple):
    """The result of recovering the last file."""

    size: int  # of its messages
    cut_bytes: int  # the bytes after them, which are gone
    reason: str | None  # why they were cut off; None: nothing was cut off


def recover(file: File) -> Recovered:
    """Cuts the file, which is open for writing, after its last good message, and syncs it; logs the cut.

    If the process is killed, the file is cut or not; another recovery ends the same. Raises UnsupportedMagicError or
    CorruptRecordError, and changes nothing, for a whole message of another magic, or of magic 1 without its checksum:
    0.7.2 does not start then.
    """
    size = file.size()
    rest = _first_bad(file, size)
    if rest.error is None:
        file.sync()  # readers will see messages that a killed process may not have synced
        return Recovered(size, 0, None)
    if rest.reason in NOT_OURS:
        raise rest.error
    logger.warning(
        "%s, position %d: %s; the last %d bytes are cut off", file.path, rest.position, rest.error.reason,
        size - rest.position,
    )  # fmt: skip
    file.truncate(rest.position)
    file.sync()
    return Recovered(rest.position, size - rest.position, rest.error.reason)


def _first_bad(file: File, size: int) -> Rest:
    """Returns the rest of the file after the good messages at its beginning."""
    stop = 0
    for window in windows(file, 0, size):
        try:
            window.entries.check_checksums()
        except CorruptionError as error:
            found = error.located(file.path, window.position)
            return Rest(found.position or 0, found, stop_reasons.BAD_SIZE)
        stop = window.stop
    return rest_after(file, stop, size)


def warn_of_bad_end(file: File) -> None:
    """Logs a warning if a file that was closed in order does not end with a whole message; checks no checksums.

    0.7.2 does not check, and appends after such bytes, where no consumer reads.
    """
    size = file.size()
    rest = rest_after(file, end_of(windows(file, 0, size), 0), size)
    if rest.error is not None:
        logger.warning(
            "%s; consumers stop there, although the log was closed in order: to cut it off, stop, and remove "
            ".kafka_cleanshutdown before the next start",
            rest.error,
        )


def check_tail(file: File, stop: int, end: int) -> None:
    """Checks that nothing, or only an unfinished write, follows the last whole entry of a log's last file.

    Logs a warning for an unfinished write: zeros, or an incomplete entry that no sound message follows. Raises
    CorruptRecordError, with path and position, for anything else.
    """
    rest = rest_after(file, stop, end)
    if rest.error is None:
        return
    if not is_unfinished(file, rest, end):
        raise rest.error
    logger.warning(
        "%s, position %d: %d bytes of an unfinished write are passed over (%s)",
        file.path,
        stop,
        end - stop,
        rest.error.reason,
    )


def is_unfinished(file: File, rest: Rest, end: int) -> bool:
    """Whether the bytes after the whole entries, up to ``end``, are an unfinished write rather than damage."""
    if is_zero(file, rest.position, end):
        return True
    return rest.reason == stop_reasons.TRUNCATED and not _has_sound(file, rest.position + 1, end)


def _has_sound(file: File, start: int, end: int) -> bool:
    """Whether a message with a right checksum begins after ``start``; True also if there is too much to check."""
    checked = 0
    while end - start > ENTRY_BYTES_MIN:
        buffer = as_buffer(file.read(start, min(SEARCH_BYTES, end - start)))
        for at, size in _candidates(buffer, end - start):
            checked += size
            if checked > CHECKED_BYTES_MAX or _is_sound(file, start + at, size):
                return True
        if len(buffer) < SEARCH_BYTES:
            return False
        start += len(buffer) - ENTRY_BYTES_MIN
    return False


def _candidates(buffer: Bytes, room: int) -> list[tuple[int, int]]:
    """Returns possible starts of messages with a payload in ``buffer``, and their sizes; ``room``: the file's bytes."""
    count = max(len(buffer) - ENTRY_BYTES_MIN, 0)
    sizes: Int64s = sum(
        (buffer[byte : byte + count].astype(np.int64) << 8 * (3 - byte) for byte in range(4)),
        np.zeros(count, dtype=np.int64),
    )
    magics = buffer[SIZE_BYTES : SIZE_BYTES + count]
    fits = sizes <= room - SIZE_BYTES - np.arange(count)
    found = np.flatnonzero((magics <= 1) & (sizes > MESSAGE_BYTES_MIN + magics) & fits)
    return list(zip(found.tolist(), sizes[found].tolist(), strict=True))


def _is_sound(file: File, position: int, size: int) -> bool:
    message = file.read(position + SIZE_BYTES, size)
    head = MESSAGE_BYTES_MIN + message[0]
    return len(message) == size and crc32(message[head:]) == int.from_bytes(message[head - 4 : head], "big")
