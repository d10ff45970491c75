"""Mirrors between clusters: consumers of one or several clusters into one target, another cluster or a log directory.

``settings`` reads what the tools of Kafka call consumer.config and producer.config, ``targets`` is what the second
names (the first is in ``clients.sources``), ``stream`` fetches in a thread, ``session`` writes what the streams of one
source fetch, and ``run`` is the whole, with one session for each source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .run import Mirror as Mirror
    from .settings import SourceSettings as SourceSettings, TargetSettings as TargetSettings
    from .topics import TopicChoice as TopicChoice
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "run": ["Mirror"],
            "settings": ["SourceSettings", "TargetSettings"],
            "topics": ["TopicChoice"],
        },
    )
