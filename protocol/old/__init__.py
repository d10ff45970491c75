"""Bodies of requests and answers in versions older than kio has, for clients of Kafka 0.8 to 0.10.

``shapes`` creates their classes; ``records``, ``offsets``, ``admin`` and ``acls`` have them by subject.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .table import OLD as OLD, Layouts as Layouts
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"table": ["OLD", "Layouts"]})
