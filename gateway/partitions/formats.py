"""Which message format topics are written in: record batches, unless old formats are asked for.

Kafka takes the setting ``message.format.version`` of a topic and ignores it where ``inter.broker.protocol.version`` is
3.0 or later: clients often set it carelessly, and today's consumers cannot read old formats.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from threading import Lock

from ...storage import LogConfig, LogManager, LogStoreError, TopicPartition
from .led_partition import LedPartition

KEY = "message.format.version"
RECORD_BATCHES = 2  # their magic
NEWEST = LogConfig().message_format_version
NOTED_MAX = 10_000

Opener = Callable[[LogManager, TopicPartition], LedPartition]

logger = logging.getLogger(__name__)


class MessageFormats:
    """Whether topics' ``message.format.version`` is followed. For any thread."""

    def __init__(self, *, are_followed: bool) -> None:
        self._are_followed = are_followed
        self._lock = Lock()  # Guards what was noted.
        self._noted: set[tuple[str, str]] = set()

    @property
    def overrides(self) -> Mapping[str, str]:
        """The settings that replace those of all topics."""
        return {} if self._are_followed else {KEY: NEWEST}

    def noting(self, open_partition: Opener) -> Opener:
        """Returns a function that opens a partition and logs, once per topic, if its setting is ignored."""

        def opened(manager: LogManager, wanted: TopicPartition) -> LedPartition:
            led = open_partition(manager, wanted)
            if not self._are_followed:
                self._note(manager, wanted.topic)
            return led

        return opened

    def _note(self, manager: LogManager, topic: str) -> None:
        try:
            given = manager.topic(topic).configs.get(KEY)
            is_old = given is not None and LogConfig.from_mapping({KEY: given}).record_magic < RECORD_BATCHES
        except LogStoreError:
            return  # the topic was deleted in the meantime
        with self._lock:
            is_new = (topic, given) not in self._noted and len(self._noted) < NOTED_MAX
            if is_old and given is not None and is_new:
                self._noted.add((topic, given))
                logger.warning(
                    "topic %s: %s = %s is ignored, as by Kafka since 3.0: records are stored as record batches; "
                    "inter.broker.protocol.version below 3.0 has it followed",
                    topic,
                    KEY,
                    given,
                )
