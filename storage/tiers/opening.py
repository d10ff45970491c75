"""Opens the tier at a URL; the names of its folders reveal its layout."""

from __future__ import annotations

from collections.abc import Sequence

from ..bucket.stores.port import ListingStore
from ..errors import NotALogDirError
from .aiven.keys import Keys
from .aiven.layout import AivenTier, parse_topic
from .local_storage import FOLDER, LocalStorageTier, parse_partition
from .objects import list_folder, open_objects
from .port import Tier

LOOKED_AT = 200  # limit of folders at the URL that are checked for the folders of topics


def open_tier(url: str, keys: Sequence[str] = (), *, store: ListingStore | None = None) -> Tier:
    """Returns the tier at a URL or in a directory: there, or one or two folders below, as settings of brokers name it.

    ``keys``: files with private keys, for encrypted segments. Raises NotALogDirError if there is no tier,
    InvalidConfigError for a wrong URL, and ObjectStoreError.
    """
    store = store or open_objects(url)
    found = _find(store, "", 2, Keys(keys))
    if found is None:
        raise NotALogDirError(
            f"{store.url}: there are no segments of a tier here: give the directory or the URL that the brokers' "
            "settings name (rsm.config.dir, or the bucket and key.prefix of Aiven's plugin)"
        )
    return found


def _find(store: ListingStore, folder: str, depth: int, keys: Keys) -> Tier | None:
    """Returns the tier in a folder, or up to ``depth`` folders below."""
    folders = list_folder(store, folder).folders
    if folder.rpartition("/")[2] == FOLDER or any(parse_partition(each) is not None for each in folders):
        return LocalStorageTier(store, folder)
    if any(parse_topic(each) is not None for each in folders):
        return AivenTier(store, folder, keys)
    for name in folders[:LOOKED_AT] if depth else ():
        found = _find(store, f"{folder}/{name}" if folder else name, depth - 1, keys)
        if found is not None:
            return found
    return None
