"""A log on an object store that creates an object only if it is absent: one sequence of commits decides everything.

:class:`ObjectStore` is the port, :func:`open_store` opens what a URL names (it needs the extra ``[bucket]``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .port import ObjectFacts as ObjectFacts, ObjectStore as ObjectStore
    from .remote import open_store as open_store
    from .urls import is_store_url as is_store_url
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "port": ["ObjectFacts", "ObjectStore"],
            "remote": ["open_store"],
            "urls": ["is_store_url"],
        },
    )
