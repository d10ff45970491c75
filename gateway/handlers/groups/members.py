"""Requests of members of classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from ....protocol.bodies import ErrorCode
from ...context import TEXT_CHARACTERS_MAX, Context
from ...groups.member import Join, JoinResult, Leaving, Sync, SyncResult
from ...request import Request
from .asking import ask

# First versions of what changed.
_JOIN_TIMEOUT, _JOIN_MEMBER_ID, _JOIN_NO_PROTOCOL, _JOIN_SKIPS = 1, 4, 7, 9
_SYNC_PROTOCOL = 5
_LEAVE_SEVERAL = 3
_REFUSED = {  # joins that a person must mend
    ErrorCode.inconsistent_group_protocol: "it and the members have no protocol or assignor in common",
    ErrorCode.invalid_session_timeout: "its session.timeout.ms is below group.min.session.timeout.ms, or above "
    "group.max.session.timeout.ms",
    ErrorCode.group_max_size_reached: "the group is full (group.max.size)",
    ErrorCode.fenced_instance_id: "another member has its group.instance.id",
    ErrorCode.invalid_group_id: "a group needs a name",
}


def join_group(request: Request, context: Context) -> None:
    """Answers once all members have joined; the client's connection waits until then."""
    body = request.body
    version, instance_id = request.version, getattr(body, "group_instance_id", None)
    session_ms = _ms(body.session_timeout)
    join = Join(
        body.group_id,
        body.member_id,
        instance_id,
        request.client_id or "",
        f"/{request.client_host}",
        _ms(body.rebalance_timeout) if version >= _JOIN_TIMEOUT else session_ms,
        session_ms,
        body.protocol_type,
        tuple((each.name, each.metadata) for each in body.protocols),
        requires_member_id=version >= _JOIN_MEMBER_ID and instance_id is None,
        may_skip_assignment=version >= _JOIN_SKIPS,
        reason=getattr(body, "reason", None),
        client=request.exchange.connection,
    )

    @request.or_fail
    def done(result: JoinResult) -> None:
        if result.error in _REFUSED:
            warn(request, context, f"may not join the group {join.group!r}: {_REFUSED[result.error]}")
        request.answer(_joined(result, version))

    request.park_parsed()
    ask(request, context, lambda coordinator: coordinator.membership.join(join, done))


def _ms(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


def _joined(result: JoinResult, version: int) -> Mapping[str, Any]:
    protocol = result.protocol if version >= _JOIN_NO_PROTOCOL else result.protocol or ""
    return {
        "error_code": result.error,
        "generation_id": result.generation,
        "protocol_type": result.protocol_type,
        "protocol_name": protocol,
        "leader": result.leader,
        "skip_assignment": result.skip_assignment,
        "member_id": result.member_id,
        "members": [
            {"member_id": member_id, "group_instance_id": instance_id, "metadata": metadata}
            for member_id, instance_id, metadata in result.members
        ],
    }


def sync_group(request: Request, context: Context) -> Mapping[str, Any] | None:
    """Answers with the member's assignment, once the leader has sent all assignments."""
    body = request.body
    sync = Sync(
        body.group_id,
        body.generation_id,
        body.member_id,
        getattr(body, "group_instance_id", None),
        getattr(body, "protocol_type", None),
        getattr(body, "protocol_name", None),
        {each.member_id: each.assignment for each in body.assignments},
    )
    if request.version >= _SYNC_PROTOCOL and (sync.protocol_type is None or sync.protocol is None):
        return {"error_code": ErrorCode.inconsistent_group_protocol}

    @request.or_fail
    def done(result: SyncResult) -> None:
        request.answer(
            {
                "error_code": result.error,
                "protocol_type": result.protocol_type,
                "protocol_name": result.protocol,
                "assignment": result.assignment,
            }
        )

    request.park_parsed()
    ask(request, context, lambda coordinator: coordinator.membership.sync(sync, done))
    return None


def heartbeat(request: Request, context: Context) -> None:
    """Answers whether the member must join again."""
    body = request.body
    member = (body.group_id, body.member_id, getattr(body, "group_instance_id", None), body.generation_id)
    ask(
        request,
        context,
        lambda coordinator: request.answer({"error_code": coordinator.membership.heartbeat(*member)}),
    )


def warn(request: Request, context: Context, text: str) -> None:
    """Logs why a client gets no partitions, with the name that it gives itself."""
    client = (request.client_id or "")[:TEXT_CHARACTERS_MAX]
    context.refusals.warn((request.client_host, client, text), f"{request.client_host}: the client {client!r} {text}")


def leave_group(request: Request, context: Context) -> None:
    """Answers, for each member, whether it was removed."""
    body, is_old = request.body, request.version < _LEAVE_SEVERAL
    members = [
        Leaving(each.member_id, getattr(each, "group_instance_id", None))
        for each in ([body] if is_old else body.members)
    ]

    @request.or_fail
    def done(error: ErrorCode, codes: Sequence[ErrorCode]) -> None:
        if is_old:
            request.answer({"error_code": error or next(iter(codes), ErrorCode.none)})
            return
        answers = [
            {"member_id": each.member_id, "group_instance_id": each.instance_id, "error_code": code}
            for each, code in zip(members, codes, strict=False)  # no codes: an error of the whole
        ]
        request.answer({"error_code": error, "members": answers})

    ask(request, context, lambda coordinator: coordinator.membership.leave(body.group_id, members, done))
