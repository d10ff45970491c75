"""A topic as a Delta table, and the changes of a table as a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .export import advice as advice, parser as parser, query as query
    from .tables import changes_to_records as changes_to_records, table_sink as table_sink
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "export": ["advice", "parser", "query"],
            "tables": ["changes_to_records", "table_sink"],
        },
    )
