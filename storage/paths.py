"""Reads paths as people and Spark write them: local paths and ``file:`` URIs. Refuses those of other file systems.

Recognizes URIs by the rule of Hadoop's ``Path``, since Spark gets the same text: a colon before the first slash ends a
scheme, so ``hdfs:/log`` and ``abfss:log`` are URIs and ``./a:b`` is not.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from .errors import InvalidConfigError

_URI = re.compile(r"([^/:]+):(?://([^/]*))?(.*)", re.DOTALL)  # scheme, authority, path
_USER = re.compile(r"//[^/]*@")
_HERE = ("", "localhost")


def local_path(path: str) -> str:
    """Returns the local path for ``path``: ``/x`` for ``file:/x`` and ``file:///x``, in which ``%20`` is a space.

    Raises InvalidConfigError for other schemes (``hdfs:/log``, ``s3a://bucket/log``), and for ``file:`` with another
    host or without a slash. Accesses no files, and leaves a relative path relative.
    """
    uri = _URI.fullmatch(path)
    if uri is None:
        return path
    scheme, host, rest = uri.groups()
    shown = _USER.sub("//…@", path)  # a password may follow the user name
    if scheme.lower() != "file" or (host or "") not in _HERE:
        raise InvalidConfigError(
            f"path {shown}: a log lives on a file system that every worker mounts, not on {scheme}:; "
            "name a mounted directory, or write ./ before a local name that has a colon"
        )
    if not rest.startswith("/"):
        raise InvalidConfigError(f"path {shown}: after file:, a path must begin with a slash: write file:/data/log")
    return unquote(rest)
