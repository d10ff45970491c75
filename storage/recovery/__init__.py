"""Turns the files of a partition into a log: its segments, its producers and its leader epochs, also after a crash.

``loader`` opens a log for a writer, ``view`` for a reader. ``segment_recovery`` checks and cuts a segment.
``producer_state_manager`` and ``leader_epochs`` are Kafka's ProducerStateManager and LeaderEpochFileCache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .leader_epochs import LeaderEpochCache as LeaderEpochCache
    from .loader import LogLoader as LogLoader
    from .log_end import is_sound_up_to_end as is_sound_up_to_end
    from .lost_start import (
        find_lost_start as find_lost_start,
        lost_start_error as lost_start_error,
        lost_start_text as lost_start_text,
    )
    from .producer_snapshots import (
        SIDECAR_BYTES_MAX as SIDECAR_BYTES_MAX,
        snapshots_outside as snapshots_outside,
        write_snapshot as write_snapshot,
    )
    from .producer_state import (
        EXPIRATION_CHECK_INTERVAL_MS as EXPIRATION_CHECK_INTERVAL_MS,
        PRODUCER_ID_EXPIRATION_MS as PRODUCER_ID_EXPIRATION_MS,
        Marker as Marker,
        Origin as Origin,
        ProducedBatch as ProducedBatch,
        ProducerBatch as ProducerBatch,
        ProducerState as ProducerState,
        ProducerUpdate as ProducerUpdate,
    )
    from .producer_state_manager import (
        ProducerStateManager as ProducerStateManager,
        rows_for_replay as rows_for_replay,
    )
    from .segment_recovery import assign_epochs as assign_epochs, read_markers as read_markers, replay as replay
    from .view import LoadedLog as LoadedLog
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "leader_epochs": ["LeaderEpochCache"],
            "loader": ["LogLoader"],
            "log_end": ["is_sound_up_to_end"],
            "lost_start": ["find_lost_start", "lost_start_error", "lost_start_text"],
            "producer_snapshots": ["SIDECAR_BYTES_MAX", "snapshots_outside", "write_snapshot"],
            "producer_state": [
                "EXPIRATION_CHECK_INTERVAL_MS",
                "Marker",
                "Origin",
                "PRODUCER_ID_EXPIRATION_MS",
                "ProducedBatch",
                "ProducerBatch",
                "ProducerState",
                "ProducerUpdate",
            ],
            "producer_state_manager": ["ProducerStateManager", "rows_for_replay"],
            "segment_recovery": ["assign_epochs", "read_markers", "replay"],
            "view": ["LoadedLog"],
        },
    )
