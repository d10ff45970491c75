"""Topics as Delta tables or Parquet files, and the changes of Delta tables as topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .command.arguments import parser as parser
    from .export import (
        advice as advice,
        each_topic as each_topic,
        is_load as is_load,
        load as load,
        query as query,
    )
    from .runs import ExportRun as ExportRun
    from .tables import changes_to_records as changes_to_records, table_sink as table_sink
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "command.arguments": ["parser"],
            "export": ["advice", "each_topic", "is_load", "load", "query"],
            "runs": ["ExportRun"],
            "tables": ["changes_to_records", "table_sink"],
        },
    )
