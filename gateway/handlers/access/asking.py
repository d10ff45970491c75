"""Asking: a request that is being checked against rules and reserved names, and its client's permissions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ....protocol.bodies import ErrorCode
from ....protocol.errors import code_of, message_of
from ....storage import InvalidTopicError, check_not_reserved, is_reserved
from ...context import Context
from ...request import Request
from ...security.acls import CLUSTER_NAME
from ...security.rules import Operation, Resource, Rules

Body = Mapping[str, Any]

DENIED = {
    Resource.TOPIC: ErrorCode.topic_authorization_failed,
    Resource.GROUP: ErrorCode.group_authorization_failed,
    Resource.TRANSACTIONAL_ID: ErrorCode.transactional_id_authorization_failed,
    Resource.CLUSTER: ErrorCode.cluster_authorization_failed,
}


def refused_topic(name: str | None) -> Body:
    """Returns the code and the text for a topic that a client may not change: denied, or reserved."""
    try:
        check_not_reserved(name or "")
    except InvalidTopicError as error:
        return {"error_code": code_of(error), "error_message": message_of(error)}
    return {"error_code": DENIED[Resource.TOPIC], "error_message": "Authorization failed."}


class Asking:
    """A request, and the permissions of its client."""

    def __init__(self, request: Request, context: Context, rules: Rules | None) -> None:
        """``rules`` None: every client may do everything, except with reserved names."""
        self.request, self.context, self._rules = request, context, rules

    def may(self, operation: Operation, resource: Resource, name: str | None = CLUSTER_NAME) -> bool:
        """Whether the client may do this; ``name`` None: with at least one resource of the kind."""
        return self._rules is None or self._rules.allow(self.request.client, operation, resource, name)

    def may_topic(self, operation: Operation, name: str | None) -> bool:
        """Whether the client may do this with a topic; True for None: the topic does not exist."""
        return name is None or self.may(operation, Resource.TOPIC, name)

    def may_change(self, operation: Operation, name: str | None) -> bool:
        """Like :meth:`may_topic`, for a request that changes a topic or its data; False for reserved names."""
        return name is None or (not is_reserved(name) and self.may(operation, Resource.TOPIC, name))

    def narrow(self, **fields: Any) -> None:
        """Replaces fields of the request's body before the handler gets it."""
        self.request.body = replace(self.request.body, **fields)

    def change_answer(self, change: Callable[[Body], Body]) -> None:
        """Passes the handler's answer through ``change``, after all changes that were added before."""
        before = self.request.amend
        self.request.amend = change if before is None else lambda body: change(before(body))

    def add(self, field: str, items: Sequence[Body]) -> None:
        """Adds items to an array of the answer."""
        if items:
            self.change_answer(lambda body: {**body, field: [*body.get(field, ()), *items]})

    def keep(self, field: str, is_allowed: Callable[[Body], bool]) -> None:
        """Removes items that are not allowed from an array of the answer."""
        self.change_answer(lambda body: {**body, field: _kept(body.get(field, ()), is_allowed)})

    def keep_within(self, field: str, inner: str, is_allowed: Callable[[Body], bool]) -> None:
        """Removes items that are not allowed from the array ``inner`` of each item of an array of the answer."""
        self.change_answer(
            lambda body: {
                **body,
                field: [{**each, inner: _kept(each.get(inner, ()), is_allowed)} for each in body.get(field, ())],
            }
        )


def _kept(items: Iterable[Body], is_allowed: Callable[[Body], bool]) -> list[Body]:
    return [each for each in items if is_allowed(each)]


def parted(items: Iterable[Any], is_allowed: Callable[[Any], bool]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Returns two tuples: the allowed items, and the others."""
    allowed: list[Any] = []
    denied: list[Any] = []
    for each in items:
        (allowed if is_allowed(each) else denied).append(each)
    return tuple(allowed), tuple(denied)
