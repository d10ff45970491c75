"""Carries out requests of Kafka 0.7 and builds the bytes of their answers (KafkaRequestHandlers of 0.7.2).

An answer is its length (int32, of what follows), an error code (int16) and a body. A produce request has no answer,
whatever happens. If 0.7.2 would close the connection, an error is raised here.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

from ...gateway.network.file_slice import FileSlice, Part, release
from ...storage import InvalidTopicError, OffsetOutOfRangeError, RecordTooLargeError, UnknownTopicOrPartitionError
from ..log_0_7.directory import PositionLogDirectory
from ..log_0_7.log import offsets_without_log
from ..requests_0_7 import HEAD, RANDOM_PARTITION, Code, Fetch, FrameReader, Key, Offsets, Produce

logger = logging.getLogger(__name__)


class Answer(NamedTuple):
    """The parts of an answer; an empty sequence if the request has no answer."""

    parts: Sequence[Part]
    is_last: bool = False  # the connection is closed after it


class MessageSet(NamedTuple):
    """The answer to a fetch, or one part of the answer to a multi-fetch."""

    error: int
    length: int  # bytes of the set; below 0 for a fetch of a negative size, which 0.7.2 cannot send
    content: FileSlice | None = None

    @property
    def head(self) -> bytes:
        return HEAD.pack(HEAD.size - 4 + self.length, self.error)


class Answers:
    """Answers requests over the logs of a directory."""

    def __init__(self, logs: PositionLogDirectory) -> None:
        self._logs = logs

    def answer(self, frame: memoryview) -> Answer:
        """Carries out a request. Raises MalformedFrameError or LogStoreError if the connection must be closed."""
        reader = FrameReader(frame)
        match reader.key():
            case Key.PRODUCE:
                return self._produce([reader.produce()])
            case Key.MULTI_PRODUCE:
                return self._produce([reader.produce() for _ in range(reader.count())])
            case Key.FETCH:
                return _sent([self._fetch(reader.fetch())])
            case Key.MULTI_FETCH:
                return self._multi_fetch([reader.fetch() for _ in range(reader.count())])
            case Key.OFFSETS:
                return self._offsets(reader.offsets())

    def _produce(self, sets: Sequence[Produce]) -> Answer:
        """Appends message sets in order.

        Drops a set with a message that is too large; any other error ends the request.
        """
        for topic, partition, message_set in sets:
            chosen = self._logs.any_partition(topic) if partition == RANDOM_PARTITION else partition
            try:
                self._logs.log_to_append(topic, chosen).append(message_set)
            except RecordTooLargeError as error:
                logger.warning("%s-%d: %s", topic, chosen, error)
        return Answer(())

    def _fetch(self, asked: Fetch) -> MessageSet:
        try:
            log = self._logs.log(asked.topic, asked.partition)
            if log is None:
                return MessageSet(Code.NONE, 0)
            chunk = log.read(asked.position, asked.size)
            if chunk.segment is None or chunk.length <= 0:
                return MessageSet(Code.NONE, chunk.length)
            held = chunk.segment.file.hold()
        except OffsetOutOfRangeError:
            return MessageSet(Code.OFFSET_OUT_OF_RANGE, 0)
        except UnknownTopicOrPartitionError:
            return MessageSet(Code.WRONG_PARTITION, 0)
        except (InvalidTopicError, OSError) as error:
            logger.warning("a fetch from %s-%d failed: %s", asked.topic, asked.partition, error)
            return MessageSet(Code.UNKNOWN, 0)
        return MessageSet(
            Code.NONE, chunk.length, FileSlice(held.descriptor, chunk.position, chunk.length, held.release)
        )

    def _multi_fetch(self, asked: Sequence[Fetch]) -> Answer:
        with ExitStack() as undo:
            sets = []
            for each in asked:
                found = self._fetch(each)
                sets.append(found)
                if found.content is not None:
                    undo.callback(release, found.content)
            undo.pop_all()
        length = sum(len(each.head) + each.length for each in sets)
        whole = _sent(sets)
        return whole._replace(parts=[MessageSet(Code.NONE, length).head, *whole.parts])

    def _offsets(self, asked: Offsets) -> Answer:
        log = self._logs.log(asked.topic, asked.partition)
        found = offsets_without_log(asked.time_ms) if log is None else log.offsets_before(asked.time_ms, asked.most)
        body = struct.pack(f">i{len(found)}q", len(found), *found)
        return Answer([MessageSet(Code.NONE, len(body)).head + body])


def _sent(sets: Sequence[MessageSet]) -> Answer:
    """Returns the parts to send.

    The header of a set with a negative length is the last: 0.7.2 closes the connection.
    """
    parts: list[Part] = []
    for number, each in enumerate(sets):
        parts.append(each.head)
        if each.content is not None:
            parts.append(each.content)
        if each.length < 0:
            for unsent in sets[number + 1 :]:
                if unsent.content is not None:
                    release(unsent.content)
            return Answer(parts, is_last=True)
    return Answer(parts)
