"""What Python programs without Spark use to append to topics and to follow them. Imports no Spark.

``rows`` turns a program's rows into records, ``producer`` appends them, ``follower`` returns records as they arrive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .follower import Follower as Follower, follow as follow
    from .producer import Appended as Appended, Producer as Producer, append as append
    from .rows import Record as Record
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "follower": ["Follower", "follow"],
            "producer": ["Appended", "Producer", "append"],
            "rows": ["Record"],
        },
    )
