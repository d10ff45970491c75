"""Commands for the files of logs: retention, compaction, recovery, index rebuild, snapshots, check of a file system."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .run import (
        Asked as Asked,
        Config as Config,
        Every as Every,
        TopicConfigs as TopicConfigs,
        Topics as Topics,
        carry_out as carry_out,
    )
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "run": ["Asked", "Config", "Every", "TopicConfigs", "Topics", "carry_out"],
        },
    )
