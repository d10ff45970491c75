"""Several gateways over one log directory: the registry that they share.

``opening`` opens the registry that the settings name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .opening import open_registry as open_registry
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "opening": ["open_registry"],
        },
    )
