"""What an address names, shown as a log directory: a log on an object store, or a tier.

Here alone is asked which of them it is; what is opened by it says so by itself, as ``LogManager.bucket`` does. A local
directory needs neither, and loads nothing of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .clock import Clock
from .filesystem.port import FileSystem, MadeFileSystem
from .paths import is_store_url
from .tiers.address import is_tier_address

if TYPE_CHECKING:
    from .bucket.commit_log import CommitLog
    from .bucket.files.filesystem import BucketFileSystem
    from .tiers.files.filesystem import TieredFiles


def shown_at(
    address: str, clock: Clock | None = None, *, create: bool = False
) -> BucketFileSystem | TieredFiles | None:
    """Returns the file system that shows the log at a URL, or the tier at an address; None for a local path.

    ``create`` makes a log on an object store that is missing. Raises as :func:`open_files` and
    :func:`open_tiered_files`.
    """
    if is_store_url(address):
        from .bucket.files.filesystem import open_files  # noqa: PLC0415  a directory needs none of it

        return open_files(address, create=create, clock=clock)
    if is_tier_address(address):
        from .tiers.files.filesystem import open_tiered_files  # noqa: PLC0415  a directory needs none of it

        return open_tiered_files(address)
    return None


def bucket_of(files: FileSystem) -> CommitLog | None:
    """Returns the log on an object store that ``files`` shows, if it is one; each change of it is a commit."""
    if not isinstance(files, MadeFileSystem):
        return None
    from .bucket.files.filesystem import BucketFileSystem  # noqa: PLC0415  a directory needs none of it

    return files.log if isinstance(files, BucketFileSystem) else None


def pinned(files: FileSystem, directory: str) -> FileSystem:
    """Returns a file system that shows the files of a partition as they were together, for a reader of it."""
    if not isinstance(files, MadeFileSystem):
        return files
    from .bucket.files.filesystem import BucketFileSystem  # noqa: PLC0415  a directory needs none of it
    from .bucket.files.pinned import PinnedFiles  # noqa: PLC0415
    from .tiers.files.filesystem import TieredFiles  # noqa: PLC0415
    from .tiers.files.pinned import PinnedTier  # noqa: PLC0415

    if isinstance(files, TieredFiles):
        return PinnedTier(files, directory)
    return PinnedFiles(files, directory) if isinstance(files, BucketFileSystem) else files
