"""The operations that a client may do on a resource, as a number with a bit for each (``AclOperation``)."""

from __future__ import annotations

from collections.abc import Mapping

from ..context import Context
from ..request import Request
from ..security.acls import CLUSTER_NAME, AclOperation
from ..security.rules import Operation, Resource

NOT_ASKED = -(2**31)
_CONFIGS = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
_OPERATIONS: Mapping[Resource, tuple[Operation, ...]] = {  # ``AclEntry.supportedOperations``
    Resource.TOPIC: (
        Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE,
        *_CONFIGS,
    ),
    Resource.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE),
    Resource.CLUSTER: (
        Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION, *_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}  # fmt: skip


def authorized_operations(
    request: Request, context: Context, resource: Resource, name: str = CLUSTER_NAME, *, kind: str = ""
) -> int:
    """Returns the operations that the client may do; NOT_ASKED if the request did not ask for them.

    ``kind``: the prefix in the field's name, such as ``topic_`` for ``include_topic_authorized_operations``.
    """
    if not getattr(request.body, f"include_{kind}authorized_operations", False):
        return NOT_ASKED
    if context.rules is None:
        return _number(_OPERATIONS[resource])
    rules = context.rules.current()
    if resource is Resource.CLUSTER and not rules.allow(request.client, Operation.DESCRIBE, resource, name):
        return 0
    return _number(tuple(each for each in _OPERATIONS[resource] if rules.allow(request.client, each, resource, name)))


def _number(operations: tuple[Operation, ...]) -> int:
    return sum(1 << AclOperation[each.name] for each in operations)
