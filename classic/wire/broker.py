"""Broker: the requests of Kafka 0.8 and later to one broker."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from itertools import count
from typing import Any

from ...protocol.apis import APIS, ApiKey
from ...protocol.bodies import read_answer, write_request
from ...protocol.headers import answer_header_bytes, request_header
from ...protocol.reading import MalformedRequestError
from ..errors import ClientError, MalformedAnswerError
from .connection import Connection

_ID_BYTES = 4
_NEXT_ID_BITS = 0x7FFFFFFF


class Broker:
    """One broker. The caller chooses the version of each request, or one that both sides have.

    All calls raise BrokerUnreachableError, ConnectionClosedError and MalformedAnswerError.
    """

    def __init__(self, connection: Connection, client_id: str = "commitlog") -> None:
        self.connection, self.client_id = connection, client_id
        self._ids = count(1)
        self._versions: Mapping[int, tuple[int, int]] | None = None
        self._lock = threading.Lock()  # Guards the versions; held while they are asked for.

    def ask(self, key: int, version: int, /, *, again: bool = True, **fields: Any) -> Any:
        """Sends a request with fields by kio's names, and returns the answer's body, an object of kio's.

        ``again``: as in :meth:`Connection.exchange`. Missing fields have Kafka's defaults.
        """
        sent = self._next_id()
        answer = self.connection.exchange(self._frame(key, version, sent, fields), again=again)
        if int.from_bytes(answer[:_ID_BYTES], "big") != sent:
            raise self.malformed("the broker's answer belongs to another request")
        try:
            return read_answer(key, version, answer, answer_header_bytes(key, version))
        except MalformedRequestError as error:
            raise self.malformed(f"the answer to {APIS[key].name} {version} cannot be read: {error}") from error

    def malformed(self, why: str) -> MalformedAnswerError:
        """Returns the error for an answer; the connection is closed, because its next bytes are unreliable, too."""
        self.connection.disconnect()
        return MalformedAnswerError(f"{self.connection.address}: {why}")

    def tell(self, key: int, version: int, /, **fields: Any) -> None:
        """Sends a request that has no answer: Produce with acks 0."""
        self.connection.send(self._frame(key, version, self._next_id(), fields))

    def version(self, key: int, highest: int) -> int:
        """Returns the highest version of a kind of request, up to ``highest``, that the broker supports.

        Asks the broker once by ApiVersions; brokers before 0.10 do not know this request and close the connection.
        Raises ClientError if there is no common version.
        """
        with self._lock:
            if self._versions is None:
                answer = self.ask(ApiKey.API_VERSIONS, 0)
                self._versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        lowest_there, highest_there = self._versions.get(key, (0, -1))
        found = min(highest, highest_there)
        if found < max(lowest_there, APIS[key].lowest):
            raise ClientError(
                f"{self.connection.address}: the broker has {APIS[key].name} from version {lowest_there} to "
                f"{highest_there}, this client up to {highest}"
            )
        return found

    def _next_id(self) -> int:
        return next(self._ids) & _NEXT_ID_BITS

    def _frame(self, key: int, version: int, sent: int, fields: Mapping[str, Any]) -> bytes:
        return request_header(key, version, sent, self.client_id) + write_request(key, version, fields)
