"""Headers of requests and answers."""

from __future__ import annotations

import struct
from typing import NamedTuple

from .apis import APIS, ApiKey
from .reading import Entries, Frame, MalformedRequestError, RequestReader

_FIXED = struct.Struct(">hhi")  # key, version, correlation id
_CORRELATION_ID = struct.Struct(">i")
TAGS_MAX = 1000  # tagged fields of a header: Kafka has defined none


class RequestHeader(NamedTuple):
    """The header of a request."""

    key: int
    version: int
    correlation_id: int
    client_id: str | None
    body_at: int  # where the body begins, in the frame
    is_served: bool  # whether the version is one of the table's; otherwise client and body are unknown


def parse_header(frame: Frame) -> RequestHeader:
    """Returns the header of the request in a frame.

    Raises MalformedRequestError for an invalid header, and for a kind or version that is not served. Any version of
    ApiVersions is accepted, because a client learns the served versions from its answer.
    """
    try:
        key, version, correlation_id = _FIXED.unpack_from(frame)
    except struct.error:
        raise MalformedRequestError("a request ends in its header") from None
    api = APIS.get(key)
    if api is None or not api.lowest <= version <= api.highest:
        if key == ApiKey.API_VERSIONS:
            return RequestHeader(key, version, correlation_id, None, _FIXED.size, is_served=False)
        raise MalformedRequestError(f"a request of kind {key} and version {version} is not served")
    reader = RequestReader(memoryview(frame), _FIXED.size, is_flexible=False)
    client_id = reader.string()
    if version >= api.flexible_from:
        reader = RequestReader(memoryview(frame), reader.position, is_flexible=True, entries=Entries(TAGS_MAX))
        reader.tags()
    return RequestHeader(key, version, correlation_id, client_id, reader.position, is_served=True)


def request_header(key: int, version: int, correlation_id: int, client_id: str) -> bytes:
    """Returns the header of a request, for our own clients."""
    name = client_id.encode()
    fixed = _FIXED.pack(key, version, correlation_id) + len(name).to_bytes(2, "big") + name
    return fixed + b"\0" if version >= APIS[key].flexible_from else fixed


def answer_header_bytes(key: int, version: int) -> int:
    """Returns the length of an answer's header in bytes."""
    return len(answer_header(RequestHeader(key, version, 0, None, 0, is_served=True)))


def answer_header(header: RequestHeader) -> bytes:
    """Returns the header of the answer; that of ApiVersions is never flexible."""
    fixed = _CORRELATION_ID.pack(header.correlation_id)
    is_flexible = header.key != ApiKey.API_VERSIONS and header.version >= APIS[header.key].flexible_from
    return fixed + b"\0" if is_flexible else fixed
