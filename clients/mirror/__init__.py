"""Mirrors: copy topics from one or several clusters into one target, another cluster or a log directory.

``settings`` reads what Kafka's tools call consumer.config and producer.config. ``targets`` is the interface to what a
producer.config names; what a consumer.config names is in ``clients.sources``. ``stream`` fetches in a thread,
``session`` writes what the streams of one source fetch, and ``run`` runs one session per source.
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
