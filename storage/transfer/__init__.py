"""Copies a log between a directory and an object store, both ways: offsets, batches and groups' offsets are kept.

:func:`copy_to_bucket` and :func:`copy_to_directory` copy topics into a log that does not have them. Kafka's own bytes
are copied, including older formats, transactions and compacted topics. Snapshots of an object store have the same form
as those of directories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .choosing import topics_to_copy as topics_to_copy
    from .groups import copy_groups as copy_groups
    from .pieces import CopiedPartition as CopiedPartition
    from .snapshots import restore_to_bucket as restore_to_bucket, take_bucket_snapshot as take_bucket_snapshot
    from .to_bucket import copy_to_bucket as copy_to_bucket
    from .to_directory import copy_to_directory as copy_to_directory
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "groups": ["copy_groups"],
            "pieces": ["CopiedPartition"],
            "snapshots": ["restore_to_bucket", "take_bucket_snapshot"],
            "choosing": ["topics_to_copy"],
            "to_bucket": ["copy_to_bucket"],
            "to_directory": ["copy_to_directory"],
        },
    )
