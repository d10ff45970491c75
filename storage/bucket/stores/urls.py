"""URLs of object stores: the schemes, and the checks of their form."""

from __future__ import annotations

import re

from ...errors import InvalidConfigError

_URL = re.compile(r"(s3a?|gs|az|abfss?)://([^/]*)(.*)", re.DOTALL | re.IGNORECASE)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_AZURE = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*@[A-Za-z0-9.-]+")  # container@account.dfs.core.windows.net
_PREFIX = re.compile(r"[A-Za-z0-9!_.*'()=+@:,-]+")  # a folder's name that all stores and tools read alike


def is_store_url(path: str) -> bool:
    """Whether a path names an object store: by its scheme, ``s3``, ``s3a``, ``gs``, ``az``, ``abfs`` or ``abfss``."""
    return _URL.fullmatch(path) is not None


def store_url(text: str) -> str:
    """Returns the URL with its scheme in lower case, ``s3`` for Hadoop's ``s3a``, and no slash at its end.

    Raises InvalidConfigError unless it is a bucket (Azure: a container) and folders below it. URLs are sent to workers
    and shown in plans, so they must not contain credentials.
    """
    found = _URL.fullmatch(text)
    if found is None:
        raise InvalidConfigError(f"{_shown(text)}: the URL of an object store is like s3://bucket/folder")
    scheme, bucket, rest = found[1].lower(), found[2], found[3]
    if not (_AZURE if scheme.startswith("abfs") and "@" in bucket else _BUCKET).fullmatch(bucket):
        raise InvalidConfigError(
            f"{_shown(text)}: after {scheme}:// a URL has the name of a bucket and nothing else; "
            "credentials are taken from the environment"
        )
    folders = rest.strip("/").split("/") if rest.strip("/") else []
    if any(folder in (".", "..") or not _PREFIX.fullmatch(folder) for folder in folders):
        raise InvalidConfigError(
            f"{_shown(text)}: folders have ASCII letters, digits and !_.*'()=+@:,- only, and none is empty"
        )
    return "/".join([f"{'s3' if scheme == 's3a' else scheme}://{bucket}", *folders])


def _shown(text: str) -> str:
    """Returns the URL without what may be a secret: all before an ``@``, and all from a ``?`` on."""
    return re.sub(r"//.*@", "//…@", text.split("?", maxsplit=1)[0].split("#", maxsplit=1)[0])
