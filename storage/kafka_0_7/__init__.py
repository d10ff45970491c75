"""The log of Kafka 0.7: offsets are byte positions, files end in ``.kafka``, and there is no index.

Offers :class:`PositionLogDirectory` and :class:`PositionLog` for appends, :class:`PositionLogReader` to read without a
lock, and the message format. Knows nothing of the log of later Kafkas: imports files, kernels, codecs and checksums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .directory import (
        PositionLogDirectory as PositionLogDirectory,
        position_partitions as position_partitions,
    )
    from .entries import Message as Message, encode as encode, encode_set as encode_set, messages_in as messages_in
    from .log import Appended as Appended, Chunk as Chunk, PositionLog as PositionLog
    from .names import check_topic as check_topic
    from .offsets import EARLIEST as EARLIEST, LATEST as LATEST, offsets_without_log as offsets_without_log
    from .reader import PositionLogReader as PositionLogReader
    from .retention import retain as retain
    from .settings import PositionLogSettings as PositionLogSettings
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "directory": ["PositionLogDirectory", "position_partitions"],
            "entries": ["Message", "encode", "encode_set", "messages_in"],
            "log": ["Appended", "Chunk", "PositionLog"],
            "names": ["check_topic"],
            "offsets": ["EARLIEST", "LATEST", "offsets_without_log"],
            "reader": ["PositionLogReader"],
            "retention": ["retain"],
            "settings": ["PositionLogSettings"],
        },
    )
