"""Requests of Kafka 0.8 to 0.10 whose answers differ from today's in more than fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .committed import commit_to_registry as commit_to_registry, fetch_from_registry as fetch_from_registry
    from .fetch import OLD_FORMATS_BELOW as OLD_FORMATS_BELOW, fetch_old_format as fetch_old_format
    from .offsets import offsets_before as offsets_before
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "committed": ["commit_to_registry", "fetch_from_registry"],
            "fetch": ["OLD_FORMATS_BELOW", "fetch_old_format"],
            "offsets": ["offsets_before"],
        },
    )
