"""The Produce requests of many clients at once: ``requests`` finds and checks them, ``answers`` encodes the answers.

Both are kernels, imported when they are used; ``tables`` has their arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .answers import encode_answers as encode_answers
    from .requests import bucket_of as bucket_of, find_requests as find_requests
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__, submod_attrs={"answers": ["encode_answers"], "requests": ["bucket_of", "find_requests"]}
    )
