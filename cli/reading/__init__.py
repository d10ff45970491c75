"""Commands that read: records, offsets, segments as Kafka's tools print them, verification."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .record_text import escaped as escaped
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "record_text": ["escaped"],
        },
    )
