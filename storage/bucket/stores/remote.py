"""Object stores through obstore: S3 and compatible ones, Google's and Azure's.

obstore takes credentials and endpoints from the environment (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``,
``AWS_ALLOW_HTTP``, ``GOOGLE_APPLICATION_CREDENTIALS``, ``AZURE_STORAGE_ACCOUNT_NAME`` …) or from the machine's role;
``settings`` cleans and checks them, and adds AWS's profiles.
Its errors have request headers, and at some stores the access key, so only their codes are shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import (
    CorruptionError,
    InvalidConfigError,
    ObjectExistsError,
    ObjectMissingError,
    ObjectStoreError,
    StorageError,
    StoreAccessError,
)
from ...extras import needs_extra
from ...filesystem.locks import process_id
from ...paths import store_url
from .patience import retries_of_process
from .port import FolderListing, ListingStore, ObjectFacts, checked_size
from .settings import DELETE, LIST, READ, WRITE, provider_of, settings_of

if TYPE_CHECKING:
    from obstore import Bytes as ClientBytes
    from obstore.store import BackoffConfig, ObjectStore as Client

RETRY_TIMEOUT = timedelta(seconds=60)
BACKOFF_MAX = timedelta(seconds=5)
VIEWED_BYTES_MIN = 1 << 20
CRASH = "PanicException"  # the name of obstore's crash, which leaves memory intact

_CODE = re.compile(
    r"<Code>([A-Za-z]{1,60})</Code>|\bstatus(?: code)?: ([0-9]{3})\b"
    r"|\bkind: (?!Request\b|Uncategorized\b)([A-Z][A-Za-z]{1,30})\b"  # the two say nothing
)
_SETTING = re.compile(r"\bsource: ([A-Z][A-Za-z]{1,30})\b")
_Result = TypeVar("_Result")
_Data = TypeVar("_Data", bytes, memoryview)


def open_store(url: str, *, retries: int | None = None) -> ListingStore:
    """Returns the store at a URL (s3, s3a, gs, az, abfss); sends nothing yet.

    ``retries``: how often a failed request is repeated before its error is raised (a conditional one not after a
    timeout); the environment sets the default. Raises InvalidConfigError for another URL, or if the extra ``[bucket]``
    is not installed.
    """
    return RemoteStore(url, retries)


class RemoteStore:
    """A store behind a URL. Pickling keeps the URL; every process makes a client of its own at the first use."""

    def __init__(self, url: str, retries: int | None = None) -> None:
        self._url, self._retries = store_url(url), retries

    def __reduce__(self) -> tuple[type[RemoteStore], tuple[str, int | None]]:
        return type(self), (self._url, self._retries)

    @property
    def url(self) -> str:
        return self._url

    def put_new(self, key: str, data: bytes) -> None:
        self._put(key, data, "create")

    def put(self, key: str, data: bytes) -> None:
        self._put(key, data, "overwrite")

    def _put(self, key: str, data: bytes, mode: Any) -> None:
        checked_size(key, data)
        self._ask(key, lambda client: client.put(key, data, mode=mode, use_multipart=False), WRITE)

    def get(self, key: str, *, limit: int) -> bytes:
        def read(client: Client) -> bytes:
            found = client.get(key)
            size = found.meta["size"]
            if size > limit:
                raise CorruptionError(f"{size} bytes, where at most {limit} are expected", path=self._path(key))
            return self._whole(key, found.bytes().to_bytes(), size)

        return self._ask(key, read)

    def get_range(self, key: str, start: int, length: int) -> memoryview:
        def read(client: Client) -> memoryview:
            return self._whole(key, _view(client.get_range(key, start=start, length=length)), length)

        return self._ask(key, read) if length else memoryview(b"")

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        starts, lengths = [start for start, _ in ranges], [length for _, length in ranges]

        def read(client: Client) -> list[memoryview]:
            found = client.get_ranges(key, starts=starts, lengths=lengths)
            return [self._whole(key, _view(each), size) for each, size in zip(found, lengths, strict=True)]

        return self._ask(key, read) if ranges else []

    def head(self, key: str) -> ObjectFacts | None:
        try:
            return self._ask(key, lambda client: _facts(client.head(key)))
        except ObjectMissingError:
            return None

    def list(self, folder: str, after: str = "") -> Iterator[ObjectFacts]:
        pages = iter(self._ask(folder, lambda client: client.list(folder, offset=after or None, chunk_size=1000), LIST))
        while (page := self._ask(folder, lambda _: next(pages, None), LIST)) is not None:
            yield from (facts for facts in map(_facts, page) if facts.key > after)  # some stores send all

    def list_folder(self, folder: str) -> FolderListing:
        found = self._ask(folder, lambda client: client.list_with_delimiter(f"{folder}/" if folder else None), LIST)
        names = sorted(each.rstrip("/").rpartition("/")[2] for each in found["common_prefixes"])
        return FolderListing(names, sorted(map(_facts, found["objects"])))

    def delete(self, keys: Sequence[str]) -> None:
        if keys:
            try:
                self._ask(keys[0], lambda client: client.delete(list(keys)), DELETE)
            except ObjectMissingError:  # some stores say so
                if len(keys) > 1:
                    for key in keys:
                        self.delete([key])

    def _ask(self, key: str, request: Callable[[Client], _Result], right: str = READ) -> _Result:
        """Returns the answer; raises our errors in place of obstore's, without their texts and not chained to them."""
        try:
            return request(_CLIENTS.of(self._url, self._retries))
        except BaseException as error:
            if not _is_of_client(error):
                raise
            is_crash = type(error).__name__ == CRASH
            failed = _crashed(self._path(key)) if is_crash else _translated(error, self._path(key), right)
        raise failed

    def _path(self, key: str) -> str:
        return f"{self._url}/{key}"

    def _whole(self, key: str, data: _Data, size: int) -> _Data:
        if len(data) != size:
            raise ObjectStoreError(f"{self._path(key)}: the store sent {len(data)} bytes of {size}")
        return data


class _Clients:
    """The clients of this process, one for each URL.

    obstore's threads do not survive a fork, and a forked child waits forever if its parent has used obstore before. So
    the process that used it first is remembered.
    """

    def __init__(self) -> None:
        self._lock = Lock()  # Guards the clients and the process.
        self._process: int | None = None
        self._clients: dict[tuple[str, int | None], Client] = {}

    def of(self, url: str, retries: int | None) -> Client:
        process = process_id()
        if self._process not in (None, process):
            raise StorageError(
                f"{url}: process {self._process} used an object store and was then forked; a forked process cannot "
                "use one: start it afresh (multiprocessing: the method 'spawn'), or fork before the first use"
            )
        with self._lock:
            self._process = process
            if (url, retries) not in self._clients:
                self._clients[url, retries] = connect(url, retries)
            return self._clients[url, retries]


_CLIENTS = _Clients()


def connect(url: str, retries: int | None) -> Client:
    """Returns obstore's client. Raises MissingExtraError, or InvalidConfigError for settings that it refuses."""
    with needs_extra(f"{url}: an object store"):
        from obstore.store import from_url  # noqa: PLC0415 - the extra is needed only here
    backoff: BackoffConfig = {"init_backoff": timedelta(milliseconds=100), "max_backoff": BACKOFF_MAX, "base": 2}
    most = retries_of_process() if retries is None else retries
    settings: Any
    settings, ask = settings_of(url)
    more: Any = {} if ask is None else {"credential_provider": ask}
    try:
        retry: Any = {"max_retries": most, "retry_timeout": RETRY_TIMEOUT, "backoff": backoff}
        return from_url(url, config=settings, retry_config=retry, **more)
    except BaseException as error:
        if not _is_of_client(error):
            raise
        reason = (_SETTING.findall(str(error)) or [type(error).__name__])[-1]
    raise InvalidConfigError(f"{url}: the settings in the environment do not fit this store: {reason}")


def _view(data: ClientBytes) -> memoryview:
    """Returns the bytes of an answer; copies small ones, which might keep a much larger buffer in memory."""
    return memoryview(data if len(data) >= VIEWED_BYTES_MIN else data.to_bytes())


def _is_of_client(error: BaseException) -> bool:
    """Whether an error comes from obstore; its crashes are not of class Exception, so most handlers would miss them."""
    return (
        type(error).__module__.startswith("obstore")
        or type(error).__name__ == CRASH
        or (isinstance(error, FileNotFoundError | ValueError) and not isinstance(error, StorageError))
    )


def _crashed(path: str) -> StoreAccessError:
    return StoreAccessError(
        f"{path}: the client crashed: check the variables {provider_of(path).prefix}… in the environment for "
        "characters that no URL and no credential has"
    )


def _translated(error: BaseException, path: str, right: str) -> ObjectStoreError:
    """Returns our error for one of obstore's: its kind, the store's code, and the object.

    ``right``: what the request needs, by S3's names.
    """
    kind, code, provider = type(error).__name__, _code_of(str(error)), provider_of(path)
    if code == "NoSuchBucket":
        return StoreAccessError(f"{path}: the store has no such bucket (NoSuchBucket): check the name, or create it")
    if kind == "FileNotFoundError":
        return ObjectMissingError(f"{path}: there is no such object")
    if kind in ("AlreadyExistsError", "PreconditionError"):
        return ObjectExistsError(f"{path}: the store says that the object exists")
    if code == "Builder":
        return StoreAccessError(
            f"{path}: the client refuses to send this request (Builder): for an endpoint with http:// set "
            f"{provider.allow_http}=true in the environment"
        )
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or code in ("401", "403"):
        return StoreAccessError(
            f"{path}: the store refuses access ({code or kind}): check the credentials, and that they have "
            f"{provider.rights[right]}"
        )
    return ObjectStoreError(f"{path}: the store did not carry out the request ({code or kind})")


def _code_of(text: str) -> str:
    found = {number: code for one in _CODE.finditer(text) for number, code in enumerate(one.groups()) if code}
    return next((found[number] for number in range(3) if number in found), "")


def _facts(meta: Any) -> ObjectFacts:
    return ObjectFacts(meta["path"], meta["size"], int(meta["last_modified"].timestamp() * 1000))
