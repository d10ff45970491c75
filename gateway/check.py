"""check_gateway: connects to a gateway as a client does, changes nothing, and reports what works."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

from ..protocol.apis import ApiKey
from ..protocol.bodies import ErrorCode, read_answer, write_request
from ..protocol.headers import answer_header_bytes, request_header
from ..storage import Address, counted
from .config import GatewayConfig
from .listeners import EVERYWHERE, Listener
from .security.scram import HASHES

TIMEOUT_S = 10.0
GROUP = "commitlog-check"
NO_TLS = "the gateway may expect TLS there: give the address as SSL://HOST:PORT or SASL_SSL://HOST:PORT"
TRUST = "give the authority's certificate as the setting ssl.truststore.location, unless the system has it"
_LENGTH = struct.Struct(">i")


@dataclass(frozen=True)
class CheckConfig(GatewayConfig):
    """The settings of a gateway to check. A client has neither its certificate nor its file of users."""

    def _check_security(self, listener: Listener) -> None:
        pass


class CheckError(Exception):
    """Something that a client needs does not work; the message names it, with the reason."""


class _RefusalError(CheckError):
    """An answer as a whole is an error."""

    def __init__(self, key: ApiKey, code: ErrorCode, reason: str | None) -> None:
        super().__init__(f"{key.name}: {reason or code.name}")
        self.code = code


class _Client:
    def __init__(self, connection: socket.socket) -> None:
        self._socket, self._correlation_id = connection, 0

    def ask(self, key: ApiKey, version: int, /, **fields: Any) -> Any:
        """Returns the body of the answer. Raises _RefusalError if the answer as a whole is an error."""
        self._correlation_id += 1
        head = request_header(key, version, self._correlation_id, "commitlog-check")
        frame = head + write_request(key, version, fields)
        try:
            self._socket.sendall(_LENGTH.pack(len(frame)) + frame)
            answer = self._exactly(_LENGTH.unpack(self._exactly(_LENGTH.size))[0])
        except OSError as error:
            raise CheckError(f"no answer to {key.name}: {error.strerror or error}{self._advice()}") from None
        body = read_answer(key, version, answer, answer_header_bytes(key, version))
        code = getattr(body, "error_code", ErrorCode.none)
        if code:
            raise _RefusalError(key, code, getattr(body, "error_message", None))
        return body

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            some = self._socket.recv(size - len(data))
            if not some:
                raise CheckError(f"the connection was closed{self._advice()}")
            data += some
        return bytes(data)

    def _advice(self) -> str:
        return "" if isinstance(self._socket, ssl.SSLSocket) or self._correlation_id > 1 else f"; {NO_TLS}"


def check_gateway(config: GatewayConfig, user: str | None = None, password: str = "") -> Iterator[str]:
    """Yields a line for each thing that works. Raises CheckError for the first that does not.

    ``config``: the gateway's settings. The first of its listeners is checked, at its advertised address if it listens
    on all addresses; for TLS, ``ssl.truststore.location`` has the trusted authorities (empty: the system's).
    """
    listener = config.all_listeners[0]
    address = listener.address
    if address.host in EVERYWHERE:  # no certificate names such an address
        address = config.advertised.get(listener.name, address)
    with ExitStack() as stack:
        client = _Client(stack.enter_context(closing(_connected(config, address, has_tls=listener.has_tls))))
        yield f"connected to {address}{' by TLS' if listener.has_tls else ''}"
        served = client.ask(ApiKey.API_VERSIONS, 2).api_keys
        yield f"{len(served)} kinds of requests are served"
        if listener.has_sasl:
            if user is None:
                raise CheckError("the gateway requires a login: give --user")
            yield f"logged in as {user} by {_log_in(client, config, user, password)}"
        metadata = client.ask(ApiKey.METADATA, 9, topics=None)
        for node in metadata.brokers:
            yield _reached(Address(node.host, node.port))
        yield f"shows {counted(len(metadata.topics), 'topic')}"
        yield from _read(client, metadata.topics)
        yield _coordinated(client)


def _connected(config: GatewayConfig, address: Address, *, has_tls: bool) -> socket.socket:
    try:
        plain = socket.create_connection(address, timeout=TIMEOUT_S)
    except OSError as error:
        raise CheckError(f"cannot connect to {address}: {error.strerror or error}") from None
    if not has_tls:
        return plain
    try:
        context = ssl.create_default_context(cafile=config.ssl_truststore_location or None)
        return context.wrap_socket(plain, server_hostname=address.host)
    except OSError as error:  # from TLS, or from the truststore's file
        plain.close()
        reason = f"{error.verify_message}; {TRUST}" if isinstance(error, ssl.SSLCertVerificationError) else error
        raise CheckError(f"TLS with {address}: {reason}") from None


def _reached(address: Address) -> str:
    try:
        socket.create_connection(address, timeout=TIMEOUT_S).close()
    except OSError as error:
        raise CheckError(
            f"clients are told to connect to {address}, which fails: {error.strerror or error}; "
            "set advertised.listeners"
        ) from None
    return f"clients are told to connect to {address}, which works"


def _read(client: _Client, topics: Any) -> Iterator[str]:
    """Looks up the offsets of one partition that has a leader."""
    for topic in topics:
        if topic.error_code or topic.is_internal or not topic.partitions:
            continue
        ends = []
        for timestamp in (-2, -1):
            asked = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}
            found = client.ask(
                ApiKey.LIST_OFFSETS,
                4,
                replica_id=-1,
                isolation_level=0,
                topics=[{"name": topic.name, "partitions": [asked]}],
            )
            ends.append(found.topics[0].partitions[0])
            if ends[-1].error_code:
                raise CheckError(f"{topic.name}-0: {ends[-1].error_code.name}")
        yield f"{topic.name}-0 has offsets {ends[0].offset} to {ends[1].offset}"
        return


def _coordinated(client: _Client) -> str:
    try:
        found = client.ask(ApiKey.FIND_COORDINATOR, 3, key=GROUP, key_type=0)
    except _RefusalError as refusal:
        if refusal.code != ErrorCode.group_authorization_failed:
            raise
        return f"groups were not tried: this user has no right to describe the group {GROUP}"  # rules that name others
    return f"groups are coordinated by {found.host}:{found.port}"


def _log_in(client: _Client, config: GatewayConfig, user: str, password: str) -> str:
    """Logs in with user and password; returns the mechanism. Raises CheckError if it fails."""
    mechanism = max(config.sasl_enabled_mechanisms)  # SCRAM-SHA-512 before 256 before PLAIN
    client.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism)

    def send(text: str) -> str:
        answer: bytes = client.ask(ApiKey.SASL_AUTHENTICATE, 1, auth_bytes=text.encode()).auth_bytes
        return answer.decode()

    if mechanism not in HASHES:
        send(f"\0{user}\0{password}")
        return mechanism
    name = user.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={name},r={secrets.token_urlsafe(24)}"
    answer = send(f"n,,{bare}")
    found = re.fullmatch(r"(r=[^,]+),s=([^,]+),i=(\d+)", answer)
    if found is None:
        raise CheckError(f"the gateway's first answer in {mechanism} is malformed")
    kind = HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(kind, password.encode(), base64.b64decode(found[2]), int(found[3]))
    key = hmac.digest(salted, b"Client Key", kind)
    said = f"{bare},{answer},c=biws,{found[1]}"
    signature = hmac.digest(hashlib.new(kind, key).digest(), said.encode(), kind)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    last = send(f"c=biws,{found[1]},p={proof}")
    server = hmac.digest(hmac.digest(salted, b"Server Key", kind), said.encode(), kind)
    if last != "v=" + base64.b64encode(server).decode():
        raise CheckError("the gateway could not prove that it knows the password: it may be another server")
    return mechanism
