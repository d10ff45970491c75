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
    from .entries import (
        Entries as Entries,
        Message as Message,
        encode as encode,
        encode_set as encode_set,
        messages_in as messages_in,
    )
    from .log import PositionLog as PositionLog
    from .offsets import offsets_before as offsets_before, offsets_without_log as offsets_without_log
    from .reader import PositionLogReader as PositionLogReader
    from .records import records_of as records_of
    from .settings import PositionLogSettings as PositionLogSettings
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "directory": ["PositionLogDirectory", "position_partitions"],
            "entries": ["Entries", "Message", "encode", "encode_set", "messages_in"],
            "log": ["PositionLog"],
            "offsets": ["offsets_before", "offsets_without_log"],
            "reader": ["PositionLogReader"],
            "records": ["records_of"],
            "settings": ["PositionLogSettings"],
        },
    )
