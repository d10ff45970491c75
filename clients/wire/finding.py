"""Finds brokers: the addresses in a registry, and the first broker that answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from ...registry import kafka_nodes
from ...registry.operations import children_if_any
from ...registry.port import Registry
from ...storage import LogStoreError
from ..errors import BrokerUnreachableError
from .broker import Broker
from .connection import Address, Connection, Terms

T = TypeVar("T")


def addresses(registry: Registry) -> dict[int, Address]:
    """Returns the addresses of the brokers in a registry, by id. Raises RegistryError."""
    found = {}
    for name in children_if_any(registry, kafka_nodes.BROKER_IDS):
        path = kafka_nodes.broker_path(int(name))
        if (node := registry.find(path)) is not None:
            endpoint = kafka_nodes.decode_broker(path, node.data).plain_endpoint
            if endpoint is not None:
                found[int(name)] = Address(endpoint.host, endpoint.port)
    return found


def first_answer(
    brokers: Iterable[Address], terms: Terms, client_id: str, ask: Callable[[Broker], T], if_none: str
) -> T:
    """Asks one broker after the other, each on its own connection, and returns the first answer.

    Raises the error of the last one; if there is no broker, BrokerUnreachableError with the message ``if_none``.
    """
    reason: LogStoreError = BrokerUnreachableError(if_none)
    for address in brokers:
        with Connection(address, terms) as connection:
            try:
                return ask(Broker(connection, client_id))
            except LogStoreError as error:
                reason = error
    raise reason
