"""Listeners: where and with which protocol the gateway listens, and the addresses that it gives clients."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from ..storage import Address, InvalidConfigError, parse_address

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
EVERYWHERE = ("", "0.0.0.0", "::")
_HOSTS_KNOWN = 10_000


class Listener(NamedTuple):
    """One entry of ``listeners``."""

    name: str  # in capital letters
    protocol: str  # one of PROTOCOLS
    address: Address

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        """Whether clients must log in."""
        return self.protocol.startswith("SASL_")

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"


def parse_listeners(key: str, given: str, protocols: Mapping[str, str]) -> tuple[Listener, ...]:
    """Parses listeners such as ``INSIDE://HOST:PORT,OUTSIDE://HOST:PORT``; ``protocols``: the protocol of each name.

    Raises InvalidConfigError, which names ``key``, for anything else and for duplicate names.
    """
    found = tuple(_parse(key, each.strip(), protocols) for each in given.split(","))
    _check_differ(key, given, "name", [each.name for each in found])
    return found


def check_ports(key: str, given: str, listeners: Sequence[Listener]) -> None:
    """Raises InvalidConfigError if two listeners have the same port; 0, any free port, may repeat."""
    _check_differ(key, given, "port", [each.address.port for each in listeners if each.address.port])


def _check_differ(key: str, given: str, what: str, values: Sequence[object]) -> None:
    for value in values:
        if values.count(value) > 1:
            raise InvalidConfigError(f"{key} = {given!r}: two listeners have the {what} {value}; give each its own")


def _parse(key: str, given: str, protocols: Mapping[str, str]) -> Listener:
    name, separator, address = given.partition("://")
    if not separator or not name:
        raise InvalidConfigError(
            f"{key} = {given!r}: must be one listener like PLAINTEXT://127.0.0.1:9092, or several, separated by commas"
        )
    protocol = protocols.get(name.upper())
    if protocol is None:
        raise InvalidConfigError(
            f"{key} = {given!r}: the listener {name} has no protocol: the protocols are {', '.join(PROTOCOLS)}; "
            "for another name, set listener.security.protocol.map"
        )
    return Listener(name.upper(), protocol, parse_address(key, address))


def parse_protocols(key: str, given: str) -> dict[str, str]:
    """Parses protocols by listener name, such as ``INSIDE:PLAINTEXT,OUTSIDE:SASL_SSL``. Raises InvalidConfigError."""
    found: dict[str, str] = {}
    for pair in filter(None, map(str.strip, given.split(","))):
        name, _, protocol = (part.strip().upper() for part in pair.partition(":"))
        if not name or protocol not in PROTOCOLS or name in found:
            raise InvalidConfigError(
                f"{key} = {given!r}: must have pairs like OUTSIDE:SASL_SSL, one per name; the protocols are "
                f"{', '.join(PROTOCOLS)}"
            )
        found[name] = protocol
    return found


def parse_address_limits(key: str, given: str) -> dict[str, int]:
    """Parses limits by addresses or names, such as ``127.0.0.1:200,log.example.com:100``. Raises InvalidConfigError."""
    found: dict[str, int] = {}
    for pair in filter(None, map(str.strip, given.split(","))):
        host, colon, limit = pair.rpartition(":")
        host = host.strip().removeprefix("[").removesuffix("]")
        if not colon or not host or not (limit.strip().isascii() and limit.strip().isdigit()):
            raise InvalidConfigError(f"{key} = {given!r}: must have pairs like 127.0.0.1:200, separated by commas")
        found[host] = int(limit)
    return found


def limits_of_addresses(limits: Mapping[str, int]) -> dict[str, int]:
    """Returns the limits by address, for those that are given by name. Raises OSError for a name without an address."""
    return {address: limit for host, limit in limits.items() for address in _addresses_of(host)}


def _addresses_of(host: str) -> list[str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # of no name in DNS; of what no name may be
        raise OSError(f"{host} has no address: {error}") from error
    return [canonical_host(str(address[0])) for *_, address in found]


@lru_cache(_HOSTS_KNOWN)
def canonical_host(host: str) -> str:
    """Returns one spelling for all spellings of an address; other texts as they are."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
