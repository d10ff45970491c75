"""Guards check permissions and reserved names before a request's handler gets it (``KafkaApis``).

The guard of each kind of request is in ``handlers/table``; those of a family are in ``topics``, ``groups`` and
``transactions``, and those that need no more than the cluster are here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....protocol.bodies import ErrorCode
from ....protocol.errors import RequestError
from ....storage import InvalidTopicError, check_not_reserved
from ...context import Context
from ...request import Request
from ...security.acls import CLUSTER_NAME
from ...security.rules import Operation, Resource
from .asking import DENIED, Asking, Body

ADMIN_CLIENT = "__admin_client"  # the client id of Kafka's tools for internal topics (``AdminUtils``)

Guard = Callable[[Asking], Body | None]  # returns the answer to a request that is refused as a whole


def guarded(request: Request, context: Context, guard: Guard, *, without_rules: bool) -> Body | None:
    """Returns the answer if the request is refused as a whole; None if its handler may run on what is allowed.

    ``without_rules``: run the guard for reserved names even if there are no rules.
    """
    if request.is_guarded or (context.rules is None and not without_rules):
        return None
    request.is_guarded = True
    rules = None if context.rules is None else context.rules.current()
    return guard(Asking(request, context, rules))


def check_topic(request: Request, context: Context, operation: Operation, topic: str) -> None:
    """Raises RequestError if the client may not do this with the topic."""
    _check(request, context, operation, Resource.TOPIC, topic)


def refusal_to_write(request: Request, context: Context, topic: str) -> InvalidTopicError | RequestError | None:
    """Returns why the client may not write records to the topic: its name is reserved, or the rules. None: it may."""
    try:
        check_not_reserved(topic)
    except InvalidTopicError as error:
        return error
    is_allowed = _allows(request, context, Operation.WRITE, Resource.TOPIC, topic)
    return None if is_allowed else RequestError(DENIED[Resource.TOPIC])


def check_transactional_id(request: Request, context: Context, transactional_id: str) -> None:
    """Raises RequestError if the client may not write with the transactional id."""
    _check(request, context, Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id)


def may_use_transactional_id(request: Request, context: Context, transactional_id: str) -> bool:
    """Whether the client may write with the transactional id."""
    return _allows(request, context, Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id)


def may_describe(request: Request, context: Context, topic: str) -> bool:
    """Whether the client may see that the topic exists."""
    return _allows(request, context, Operation.DESCRIBE, Resource.TOPIC, topic)


def may_write_internal_topics(request: Request, context: Context) -> bool:
    """Whether a client may write to internal topics as an administrator who restores them.

    The client's name alone, which suffices to a broker, is a text that anyone may send. So it also needs to be allowed
    CLUSTER_ACTION or ALTER on the cluster or, where there are no rules, a setting that lets everyone.
    """
    if request.client_id != ADMIN_CLIENT:
        return False
    if context.rules is None:
        return context.config.commitlog_internal_topics_writable
    rules, may = context.rules.current(), (Operation.CLUSTER_ACTION, Operation.ALTER)
    return any(rules.allow(request.client, each, Resource.CLUSTER, CLUSTER_NAME) for each in may)


def _check(request: Request, context: Context, operation: Operation, resource: Resource, name: str) -> None:
    if not _allows(request, context, operation, resource, name):
        raise RequestError(DENIED[resource])


def _allows(request: Request, context: Context, operation: Operation, resource: Resource, name: str) -> bool:
    rules = context.rules
    return rules is None or rules.current().allow(request.client, operation, resource, name)


def everyone(asking: Asking) -> Body | None:
    """Allows everyone, or leaves the check of each partition to the handler."""
    return None


def of_cluster(asking: Asking, *, operation: Operation, refused: Callable[[Any, ErrorCode], Body]) -> Body | None:
    """Checks a permission on the cluster, for the whole request."""
    is_allowed = asking.may(operation, Resource.CLUSTER)
    return None if is_allowed else refused(asking.request.body, DENIED[Resource.CLUSTER])
