"""Reads where a log is, as people and Spark write it: a local path, a ``file:`` URI, or the URL of an object store.

Recognizes URIs by the rule of Hadoop's ``Path``, since Spark gets the same text: a colon before the first slash ends a
scheme, so ``hdfs:/log`` and ``abfss:log`` are URIs and ``./a:b`` is not. Other file systems are refused.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from .errors import InvalidConfigError

_URI = re.compile(r"([^/:]+):(?://([^/]*))?(.*)", re.DOTALL)  # scheme, authority, path
_USER = re.compile(r"//[^/]*@")
_HERE = ("", "localhost")
_STORE_URL = re.compile(r"(s3a?|gs|az|abfss?)://([^/]*)(.*)", re.DOTALL | re.IGNORECASE)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_CONTAINER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*@[A-Za-z0-9.-]+")  # container@account.dfs.core.windows.net
_FOLDER = re.compile(r"[A-Za-z0-9!_.*'()=+@:,-]+")  # a folder's name that all stores and tools read alike


def location(path: str) -> str:
    """Returns :func:`store_url` for the URL of an object store, and :func:`local_path` for another path."""
    return store_url(path) if is_store_url(path) else local_path(path)


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


def is_store_url(path: str) -> bool:
    """Whether a path names an object store: by its scheme, ``s3``, ``s3a``, ``gs``, ``az``, ``abfs`` or ``abfss``."""
    return _STORE_URL.fullmatch(path) is not None


def store_url(text: str) -> str:
    """Returns the URL with its scheme in lower case, ``s3`` for Hadoop's ``s3a``, and no slash at its end.

    Raises InvalidConfigError unless it is a bucket (Azure: a container) and folders below it. URLs are sent to workers
    and shown in plans, so they must not contain credentials.
    """
    found = _STORE_URL.fullmatch(text)
    if found is None:
        raise InvalidConfigError(f"{_without_secrets(text)}: the URL of an object store is like s3://bucket/folder")
    scheme, bucket, rest = found[1].lower(), found[2], found[3]
    if not (_CONTAINER if scheme.startswith("abfs") and "@" in bucket else _BUCKET).fullmatch(bucket):
        raise InvalidConfigError(
            f"{_without_secrets(text)}: after {scheme}:// a URL has the name of a bucket and nothing else; "
            "credentials are taken from the environment"
        )
    folders = rest.strip("/").split("/") if rest.strip("/") else []
    if any(folder in (".", "..") or not _FOLDER.fullmatch(folder) for folder in folders):
        raise InvalidConfigError(
            f"{_without_secrets(text)}: folders have ASCII letters, digits and !_.*'()=+@:,- only, and none is empty"
        )
    return "/".join([f"{'s3' if scheme == 's3a' else scheme}://{bucket}", *folders])


def _without_secrets(text: str) -> str:
    """Returns the URL without what may be a secret: all before an ``@``, and all from a ``?`` on."""
    return re.sub(r"//.*@", "//…@", text.split("?", maxsplit=1)[0].split("#", maxsplit=1)[0])
