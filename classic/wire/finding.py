"""Finds brokers: the addresses in a registry, and the first broker that answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from ...registry import kafka_nodes
from ...registry.operations import children_if_any
from ...registry.port import Registry
from ...storage import LogStoreError
from ..errors import BrokerError, BrokerUnreachableError
from .broker import Broker
from .connection import Address

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
    brokers: Iterable[Address], connect: Callable[[Address], Broker], ask: Callable[[Broker], T], where: str
) -> T:
    """Asks one broker after the other, each on its own connection, and returns the first answer.

    Raises the last BrokerError if brokers refused; otherwise BrokerUnreachableError, which names ``where`` the
    addresses come from.
    """
    failures: list[LogStoreError] = []
    for address in brokers:
        broker = connect(address)
        with broker.connection:
            try:
                return ask(broker)
            except LogStoreError as error:
                failures.append(error)
    if refusals := [each for each in failures if isinstance(each, BrokerError)]:
        raise refusals[-1]
    if failures:
        raise BrokerUnreachableError(f"no broker of {where} answers: {'; '.join(map(str, failures))}")
    raise BrokerUnreachableError(f"{where} has no broker")
