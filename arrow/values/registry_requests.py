"""HTTP requests to schema registries, with retries. Credentials are in no error, and are sent to no other host."""

from __future__ import annotations

import base64
import http.client
import random
import re
import ssl
import time
import urllib.request
from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import IO, Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import unquote_to_bytes, urlsplit

from ...storage import InvalidConfigError

Headers = tuple[tuple[str, str], ...]

_ADDRESS = re.compile(r"https?://([^\s/:?#@\[\]]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?(/[^\s?#@]*)?", re.IGNORECASE)
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token of RFC 9110
_FIRST_PAUSE_S, _PAUSE_MAX_S = 0.2, 2.0
_BODY_BYTES_MAX = 2**26  # no schema is as large
_PORTS = {"http": 80, "https": 443}


class Question(NamedTuple):
    """A request: a POST of ``body``, or a GET if ``body`` is None.

    ``credentials`` are headers that are sent to the host of ``url`` only.
    """

    url: str
    body: bytes | None
    headers: Headers
    credentials: Headers
    timeout_s: float  # for all attempts together


class Answer(NamedTuple):
    """The outcome of a request. If ``status`` is None, ``failure`` says why."""

    status: int | None
    body: bytes = b""
    failure: str = ""
    may_pass: bool = False  # whether a retry may succeed
    pause_s: float = 0  # the pause before a retry that the server requests
    redirected_to: str = ""  # the other host that answered, which did not get the credentials
    tries: int = 1


def ask(question: Question) -> Answer:
    """Sends a request until it succeeds, fails for good, or ``timeout_s`` is over. Returns the last answer.

    Retries after 408, 429, 5xx, and a connection that fails or ends too soon. Pauses double from 0.2 s to 2 s, or last
    as long as Retry-After says. Never raises because of the server or the network.
    """
    ends, tries, before = time.monotonic() + question.timeout_s, 0, Answer(None)
    while True:
        tries += 1
        answer = _once(question, ends)
        if answer.status is None and before.status is not None:
            answer = before  # it says more than a timeout does
        pause_s = max(answer.pause_s, min(_FIRST_PAUSE_S * 2 ** (tries - 1), _PAUSE_MAX_S) * random.uniform(0.5, 1))
        if not answer.may_pass or time.monotonic() + pause_s >= ends:
            return answer._replace(tries=tries)
        before = answer
        time.sleep(pause_s)


def split_credentials(url: str) -> tuple[str, Headers]:
    """Returns ``url`` without ``user:password@``, and these, percent-decoded, as an Authorization header.

    Raises InvalidConfigError, which does not show the credentials, unless the address has the form
    ``http[s]://[user:password@]host[:port][/path]``.
    """
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    given, at, host = authority.rpartition("@")
    bare = f"{scheme}://{host}{slash}{path}"
    if not _ADDRESS.fullmatch(bare):
        shown = ("...@" if "@" in url else "") + url.rpartition("@")[2]
        raise InvalidConfigError(
            f"the address of a registry begins with http:// or https:// and ends with its path, but this is "
            f"{shown!r}. Percent-encode / ? # and @ in the user and the password"
        )
    if not at:
        return bare, ()
    user, _, password = given.partition(":")
    basic = base64.b64encode(unquote_to_bytes(user) + b":" + unquote_to_bytes(password)).decode()
    return bare, (("Authorization", f"Basic {basic}"),)


def check_headers(headers: Iterable[tuple[str, str]], where: str) -> Headers:
    """Returns ``headers``. Raises InvalidConfigError for one that HTTP does not allow; it shows no value."""
    found = tuple(headers)
    for name, value in found:
        if not _HEADER.fullmatch(name):
            raise InvalidConfigError(f"{where}: the name of a header may only have letters, digits and -")
        if not value.isprintable() or not value.isascii():
            raise InvalidConfigError(f"{where}: the value of header {name} is not printable ASCII")
    return found


def without_secrets(text: str, credentials: Headers) -> str:
    """Returns ``text`` with ``***`` in place of credentials, since a server's answer may repeat them."""
    for _, value in credentials:
        for secret in {value, *_parts(value)}:
            text = text.replace(secret, "***") if secret else text
    return text


def _parts(value: str) -> Iterable[str]:
    scheme, _, token = value.partition(" ")
    if token and scheme.lower() == "basic":
        try:
            pair = base64.b64decode(token, validate=True).decode()
        except ValueError:
            return (token,)
        return (token, pair, pair.partition(":")[2])
    return (token,)


def _once(question: Question, ends: float) -> Answer:
    request = _Request(question, question.url, question.body, question.credentials)
    try:
        with _opener().open(request, timeout=max(ends - time.monotonic(), 0.001)) as response:
            return _answer(response, request, _body(response, ends))
    except HTTPError as error:  # raised by _Redirects
        return Answer(error.code, str(error.msg).encode())
    except (
        ValueError,
        http.client.InvalidURL,
    ):  # not the address of the request, which was checked; the message may show a password
        return Answer(None, failure="the address of a proxy in the environment, such as HTTP_PROXY, is invalid")
    except (OSError, http.client.HTTPException) as error:
        why = error.reason if isinstance(error, URLError) else error
        return Answer(
            None, failure=f"{type(why).__name__} {why}", may_pass=not isinstance(why, ssl.SSLCertVerificationError)
        )


def _opener() -> urllib.request.OpenerDirector:
    """Returns an opener for HTTP and HTTPS, with the environment's proxies. Not thread-safe: make one per attempt."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        *(urllib.request.ProxyHandler(), urllib.request.HTTPHandler(), urllib.request.HTTPSHandler()),
        *(_Statuses(), _Redirects(), urllib.request.HTTPDefaultErrorHandler(), urllib.request.UnknownHandler()),
    ):
        opener.add_handler(handler)
    return opener


class _Request(urllib.request.Request):
    """One hop of a request; :class:`_Redirects` decides whether the next hop gets the credentials too."""

    def __init__(self, question: Question, url: str, body: bytes | None, credentials: Headers) -> None:
        super().__init__(url, body, dict(question.headers))
        self.question = question
        self.credentials = credentials
        for name, value in credentials:
            self.add_unredirected_header(name, value)


class _Statuses(urllib.request.HTTPErrorProcessor):
    """Follows redirects; returns any other response, whatever its status, and raises no error."""

    def http_response(self, request: urllib.request.Request, response: Any) -> Any:
        return super().http_response(request, response) if 300 <= response.status < 400 else response

    https_response = http_response


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, with the credentials only while scheme, host and port stay the same."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request:
        assert isinstance(req, _Request)
        if not _ADDRESS.fullmatch(newurl.partition("?")[0].partition("#")[0]):
            raise HTTPError(req.full_url, code, "a redirect to an address that is not followed", headers, fp)
        body = None if code == 303 or not isinstance(req.data, bytes) else req.data
        kept = req.credentials if _origin(newurl) == _origin(req.full_url) else ()
        return _Request(req.question, newurl, body, kept)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme.lower(), parts.hostname, parts.port or _PORTS.get(parts.scheme.lower())


def _answer(response: Any, request: _Request, body: bytes) -> Answer:
    origin = _origin(response.geturl())
    dropped = request.credentials and origin != _origin(request.question.url)
    return Answer(
        response.status,
        body,
        may_pass=response.status in (408, 429) or response.status >= 500 or _may_be_cut(response, body),
        pause_s=_retry_after_s(response.headers.get("Retry-After")),
        redirected_to=f"{origin[0]}://{origin[1]}:{origin[2]}" if dropped else "",
    )


def _may_be_cut(response: Any, body: bytes) -> bool:
    """Whether the body may be incomplete, because no header states its length and it does not end with a brace."""
    delimited = response.chunked or "Content-Length" in response.headers
    return response.status == 200 and not delimited and not body.rstrip().endswith(b"}")


def _body(response: Any, ends: float) -> bytes:
    """Reads the whole body. Raises IncompleteRead if it is truncated, OSError if it is too large or takes too long."""
    read = bytearray()
    while chunk := response.read1(2**16):
        read += chunk
        if len(read) > _BODY_BYTES_MAX:
            raise OSError(f"the response has more than {_BODY_BYTES_MAX} bytes")
        if time.monotonic() >= ends:
            raise TimeoutError("the response was not complete in time")
    if response.length:  # the rest of Content-Length
        raise http.client.IncompleteRead(bytes(read), response.length)
    return bytes(read)


def _retry_after_s(header: str | None) -> float:
    """Returns the seconds from now that a Retry-After header states, as a number or a date; 0 if it states neither."""
    if header is None or header.strip().isdecimal():
        return float(header or 0)
    try:
        at = parsedate_to_datetime(header)
    except ValueError:
        return 0
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
