"""Addresses of tiers, given in place of a log directory: ``tier:s3://bucket/prefix``, or with the directory above it.

``tier:<URL or directory>?log=<directory>&key=<file>&id=<topic id>``: ``log`` is the log directory whose earlier
segments are in the tier; ``key``, once or more, a file with a private key for encrypted segments; ``id``, once or more,
the id of the topic to read if the tier has several of one name. Everything that reads a log accepts such an address as
its directory, and passes it on to Spark's workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import parse_qsl, quote

from ..errors import InvalidConfigError
from ..paths import is_store_url, local_path, location

SCHEME = "tier:"
_PARAMETERS = ("log", "key", "id")


class TierAddress(NamedTuple):
    """The location of a tier, with the log directory, keys and ids to use."""

    url: str  # of a store, or a directory
    log: str | None = None  # a log directory; None: the tier alone
    keys: tuple[str, ...] = ()
    topic_ids: tuple[str, ...] = ()

    def __str__(self) -> str:
        given = [
            ("log", self.log or ""),
            *(("key", each) for each in self.keys),
            *(("id", each) for each in self.topic_ids),
        ]
        query = "&".join(f"{name}={quote(value, safe='/')}" for name, value in given if value)
        return f"{SCHEME}{self.url.replace('?', '%3F')}" + (f"?{query}" if query else "")


def is_tier_address(path: str) -> bool:
    """Whether a path is the address of a tier."""
    return path.startswith(SCHEME)


def tier_address(url: str, log: str | None = None, keys: Sequence[str] = ()) -> TierAddress:
    """Returns the address of a tier. ``url`` may be an address itself.

    Raises InvalidConfigError for a wrong URL, and for a log directory on another file system.
    """
    if is_tier_address(url):
        found = parse_tier_address(url)
        return found._replace(
            log=found.log if log is None else local_path(log), keys=(*found.keys, *map(local_path, keys))
        )
    if not url:
        raise InvalidConfigError("the URL of a tier is empty: name its directory, or a URL such as s3://bucket/prefix")
    if log is not None and is_store_url(log):
        raise InvalidConfigError(
            f"{log}: a log on an object store has no tier: name the tier alone, or a log directory"
        )
    return TierAddress(location(url), None if log is None else local_path(log), tuple(map(local_path, keys)))


def parse_tier_address(text: str) -> TierAddress:
    """Returns the parts of an address. Raises InvalidConfigError."""
    url, _, query = text.removeprefix(SCHEME).partition("?")
    given = parse_qsl(query, keep_blank_values=True)
    for name, value in given:
        if name not in _PARAMETERS or not value:
            raise InvalidConfigError(
                f"{text}: after ? an address of a tier has {', '.join(_PARAMETERS)} only, each = a value"
            )
    logs = [value for name, value in given if name == "log"]
    if len(logs) > 1:
        raise InvalidConfigError(f"{text}: an address of a tier has one log directory")
    keys = [value for name, value in given if name == "key"]
    found = tier_address(url.replace("%3F", "?"), logs[0] if logs else None, keys)
    return found._replace(topic_ids=tuple(value for name, value in given if name == "id"))
