"""Handlers of requests: a function for each kind, in a module for each family.

A function gets the request and the :class:`Context`, and returns the body of the answer by kio's names, or None if it
answers later. :data:`HANDLERS` is the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .access import guard as guard, once as once
    from .logins import check_login as check_login, take_raw_token as take_raw_token
    from .produce import QUICK_BYTES as QUICK_BYTES
    from .table import HANDLERS as HANDLERS
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "access": ["guard", "once"],
            "logins": ["check_login", "take_raw_token"],
            "produce": ["QUICK_BYTES"],
            "table": ["HANDLERS"],
        },
    )
