"""Where a log is, as absolute addresses that mean the same to every worker."""

from __future__ import annotations

import os.path

from ..storage import is_store_url, local_path, store_url


def local_directory(path: str) -> str:
    """Returns ``path`` as an absolute local path, since workers may have another working directory.

    Raises InvalidConfigError for a path on another file system, such as ``s3a://…`` (``storage.local_path``).
    """
    return os.path.abspath(local_path(path))


def log_location(path: str) -> str:
    """Returns the URL of a log on an object store, or else :func:`local_directory`. Raises InvalidConfigError."""
    return store_url(path) if is_store_url(path) else local_directory(path)
