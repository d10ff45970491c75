"""Locations of logs, as absolute addresses that mean the same to every worker."""

from __future__ import annotations

import os.path
from collections.abc import Collection
from urllib.parse import urlsplit

from ..storage import InvalidConfigError, is_store_url, is_tier_address, local_path, location, tier_address


def local_directory(path: str) -> str:
    """Returns ``path`` as an absolute local path, since workers may have another working directory.

    Raises InvalidConfigError for a path on another file system, such as ``s3a://…`` (``storage.local_path``), and for
    an empty one, as of a variable that is not set: it would name the working directory.
    """
    return os.path.abspath(local_path(_given(path)))


def _given(path: str) -> str:
    if not path:
        raise InvalidConfigError("the path of a directory is empty: name it, or . for the working directory")
    return path


def log_location(path: str) -> str:
    """Returns the URL of a log on an object store, the address of a tier, or else :func:`local_directory`.

    Raises InvalidConfigError.
    """
    if is_tier_address(path):
        return tier_location(path)
    return _absolute(path)


def _absolute(path: str) -> str:
    return location(path) if is_store_url(path) else local_directory(path)


def tier_location(url: str, log: str | None = None, keys: Collection[str] = ()) -> str:
    """Returns the address of a tier, alone or with the log directory that it belongs to. Raises InvalidConfigError."""
    found = tier_address(url, log, [*keys])
    return str(
        found._replace(
            url=_absolute(found.url),
            log=None if found.log is None else local_directory(found.log),
            keys=tuple(map(local_directory, found.keys)),
        )
    )


def read_location(path: str | None, tier: str | None, keys: str | None) -> str:
    """Returns the location for ``LogManager.open``, from these options: a log directory, its tier, or both.

    ``keys``: files, separated by commas. Raises InvalidConfigError.
    """
    if tier is not None:
        return tier_location(tier, path, [] if keys is None else [each.strip() for each in keys.split(",")])
    if keys is not None:
        raise InvalidConfigError("option tierKeys has no effect without option tier: name the tier, or remove it")
    assert path is not None
    return log_location(path)


def table_location(path: str) -> str:
    """Returns ``path`` as an absolute path, or unchanged if it has a scheme: Delta reads a relative one as a name."""
    return path if urlsplit(path).scheme else os.path.abspath(_given(path))
