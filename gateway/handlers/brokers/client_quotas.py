"""DescribeClientQuotas, AlterClientQuotas: limits per second for users, client ids and addresses.

The answers are those of ``ClientQuotaControlManager``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any

from ....protocol.bodies import ErrorCode
from ....protocol.errors import RequestError, message_of
from ...context import Context
from ...listeners import canonical_host
from ...quotas.entities import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    IP,
    OF_CLIENTS,
    PRODUCER_BYTE_RATE,
    TYPES,
    Component,
    Entity,
    Match,
)
from ...quotas.store import QuotaStore
from ...request import Request
from .file_errors import FINE, Error, error_of

Body = Mapping[str, Any]

_NO_FILE = "The gateway keeps no quotas: set commitlog.quotas.file"
_RATE_MAX = 2.0**63
_CONNECTIONS_MAX = 2**31 - 1
_WHOLE = {PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, CONNECTION_CREATION_RATE}


def describe_quotas(request: Request, context: Context) -> Body:
    """Answers with the quotas that a filter finds."""
    body = request.body
    try:
        components = _components(body.components)
    except RequestError as error:
        return described_quotas(body, error.code, message_of(error))
    found = context.quotas.current().find(components, is_strict=body.strict)
    return {"entries": [{**_names(entity), "values": _values(values)} for entity, values in found]}


def _components(given: Iterable[Any]) -> list[Component]:
    found: dict[str, Component] = {}
    for each in given:
        kind = each.entity_type
        if kind == "":
            raise RequestError(ErrorCode.invalid_request, "Unexpected empty filter component entity type")
        if kind not in TYPES:
            raise RequestError(ErrorCode.unsupported_version, f"Custom entity type {kind!r} not supported")
        if kind in found:
            raise RequestError(ErrorCode.invalid_request, f"Duplicate filter component for entity type {kind}")
        if each.match_type not in tuple(Match):
            raise RequestError(ErrorCode.invalid_request, f"Unexpected match type: {each.match_type}")
        match = Match(each.match_type)
        if (match is Match.EXACT) != (each.match is not None):
            raise RequestError(ErrorCode.invalid_request, f"A match of {match.name} with the name {each.match!r}")
        found[kind] = Component(kind, match, each.match)
    if IP in found and len(found) > 1:
        raise RequestError(ErrorCode.invalid_request, "Invalid entity filter component combination: ip with another")
    return list(found.values())


def _names(entity: Entity) -> Body:
    return {"entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.names]}


def _values(values: Mapping[str, float]) -> Sequence[Body]:
    return [{"key": key, "value": value} for key, value in values.items()]


def alter_quotas(request: Request, context: Context) -> Body | None:
    """Sets and removes quotas; they are synced and in force here before the answer."""
    quotas, body = context.quotas, request.body
    context.workers.admin.answer(request, lambda _: _altered(quotas, body))
    return None


def _altered(quotas: QuotaStore, body: Any) -> Body:
    changes: dict[Entity, Mapping[str, float | None]] = {}
    errors: list[Error] = []
    for each in body.entries:
        try:
            entity, change = _change(each)
            if entity in changes:
                raise RequestError(ErrorCode.invalid_request, "The entity is named twice in the request")
            changes[entity] = change
            errors.append(FINE)
        except RequestError as error:
            errors.append((error.code, message_of(error)))
    failure = FINE if body.validate_only or not changes else _kept(quotas, changes)
    return _answer(body, [failure if error is FINE else error for error in errors])


def _change(entry: Any) -> tuple[Entity, Mapping[str, float | None]]:
    """Returns the entity and the changes of an entry of a request. Raises RequestError if it is wrong."""
    names = {each.entity_type: each.entity_name for each in entry.entity}
    if not names or len(names) < len(entry.entity):
        raise RequestError(ErrorCode.invalid_request, "Invalid client quota entity: none, or one type twice")
    for kind, name in names.items():
        if kind not in TYPES:
            raise RequestError(ErrorCode.invalid_request, f"There are no quotas of the type {kind}: {', '.join(TYPES)}")
        if name == "":
            raise RequestError(ErrorCode.invalid_request, f"Empty {kind}")
    if IP in names:
        names = {**names, IP: _address(names)}
    known = (CONNECTION_CREATION_RATE,) if IP in names else OF_CLIENTS
    if len({each.key for each in entry.ops}) < len(entry.ops):
        raise RequestError(ErrorCode.invalid_request, "A quota is changed twice in an entry of the request")
    return Entity.of(names), {
        each.key: None if each.remove else _rate(each) for each in entry.ops if each.remove or _is_in(known, each)
    }


def _address(names: Mapping[str, str | None]) -> str | None:
    """Returns the address of an entity as connections have it.

    Raises RequestError if it is not an address, or not the only name.
    """
    name = names[IP]
    if len(names) > 1:
        raise RequestError(ErrorCode.invalid_request, "Invalid quota entity combination: ip with another type")
    try:
        return None if name is None else canonical_host(str(ip_address(name)))
    except ValueError:
        raise RequestError(ErrorCode.invalid_request, f"{name} is not a valid IP address") from None


def _is_in(known: Sequence[str], op: Any) -> bool:
    if op.key not in known:
        raise RequestError(ErrorCode.invalid_request, f"Invalid configuration key {op.key}: use {', '.join(known)}")
    return True


def _rate(op: Any) -> float:
    largest = _CONNECTIONS_MAX if op.key == CONNECTION_CREATION_RATE else _RATE_MAX
    if not 0 < op.value <= largest:
        raise RequestError(ErrorCode.invalid_request, f"Quota {op.key} must be greater than 0, and at most {largest}")
    if op.key in _WHOLE and not op.value.is_integer():
        raise RequestError(ErrorCode.invalid_request, f"{op.key} cannot be a fractional value")
    return float(op.value)


def _kept(quotas: QuotaStore, changes: Mapping[Entity, Mapping[str, float | None]]) -> Error:
    """Keeps the changes; returns the error."""
    if not quotas.is_kept:
        return ErrorCode.invalid_request, _NO_FILE
    return error_of(lambda: quotas.change(changes), "quotas")


def _answer(body: Any, errors: Sequence[Error]) -> Body:
    return {
        "entries": [
            {
                "error_code": code,
                "error_message": why,
                "entity": [{"entity_type": one.entity_type, "entity_name": one.entity_name} for one in each.entity],
            }
            for each, (code, why) in zip(body.entries, errors, strict=True)
        ]
    }


def described_quotas(body: Any, code: ErrorCode, why: str | None = None) -> Body:
    """Returns the answer to a DescribeClientQuotas that is refused."""
    return {"error_code": code, "error_message": why, "entries": None}


def altered_quotas(body: Any, code: ErrorCode, why: str | None = None) -> Body:
    """Returns the answer to an AlterClientQuotas that is refused."""
    return _answer(body, [(code, why)] * len(body.entries))
