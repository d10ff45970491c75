"""Sources for mirrors and loads: the partitions of a cluster of any Kafka generation, in whole batches.

:func:`sources_of` returns a :class:`Sources` for a consumer's settings, which opens a :class:`Source` by today's
protocol or by that of Kafka 0.8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .port import Source as Source, Sources as Sources
    from .settings import number_of as number_of, required as required, sources_of as sources_of
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={"port": ["Source", "Sources"], "settings": ["number_of", "required", "sources_of"]},
    )
