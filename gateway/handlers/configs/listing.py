"""ListConfigResources: the topics, nodes and groups that have configs (Kafka's ``KafkaApis``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ....protocol.bodies import ErrorCode
from ....storage import LogManager, Owner
from ...context import Context
from ...request import Request
from ..cluster import nodes
from .resources import CLIENT_METRICS, LOGGER, Resource

_KINDS = (CLIENT_METRICS, LOGGER, *Resource)
_KINDS_SINCE = 1  # earlier versions only ask for client metrics, which have no configs here


def list_config_resources(request: Request, context: Context) -> Mapping[str, Any] | None:
    """Answers with the resources of the kinds that are asked for; none: of all."""
    if request.version < _KINDS_SINCE:
        return {"config_resources": ()}
    kinds = dict.fromkeys(request.body.resource_types or _KINDS)
    if not {*kinds} <= {*_KINDS}:
        return listed_resources(request.body, ErrorCode.unsupported_version)
    context.workers.configs.answer(
        request, lambda manager: {"config_resources": _found(manager, request, context, kinds)}
    )
    return None


def listed_resources(body: Any, code: ErrorCode) -> Mapping[str, Any]:
    """Returns the answer to a ListConfigResources with an error."""
    return {"error_code": code, "config_resources": ()}


def _found(
    manager: LogManager, request: Request, context: Context, kinds: Iterable[int]
) -> list[Mapping[str, str | int]]:
    found = [(kind, name) for kind in kinds for name in _names(manager, request, context, kind)]
    return [{"resource_type": kind, "resource_name": name} for kind, name in found]


def _names(manager: LogManager, request: Request, context: Context, kind: int) -> list[str]:
    if kind == Resource.TOPIC:
        return sorted(manager.topics())
    if kind in (Resource.BROKER, LOGGER):
        return [str(each["node_id"]) for each in nodes(request, context, "node_id")]
    if kind == Resource.GROUP and not context.is_remote:
        return sorted(manager.topics_file().owned.get(Owner.GROUP, ()))
    return []
