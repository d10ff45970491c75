"""Prints a log's files exactly as ``kafka-dump-log`` does (``DumpLogSegments`` of Kafka 3.9.1).

:func:`dump_file` yields the lines of one file as lists, so that a large log is written in large pieces;
:class:`DumpFindings` collects inconsistencies for the end. Nothing is ever written or repaired: for a ``.timeindex``
without its ``.index``, Kafka's own tool creates one, while this one reports it as missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .one_file import dump_file as dump_file
    from .options import DumpFindings as DumpFindings, DumpOptions as DumpOptions, PayloadDecoder as PayloadDecoder
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "one_file": ["dump_file"],
            "options": ["DumpFindings", "DumpOptions", "PayloadDecoder"],
        },
    )
