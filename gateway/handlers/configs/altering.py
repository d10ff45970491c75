"""IncrementalAlterConfigs and AlterConfigs: changes are durable and in force on this node before they are answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ....protocol.bodies import ErrorCode
from ....protocol.errors import RequestError, code_of, message_of
from ....storage import (
    InvalidConfigError,
    LogConfig,
    LogManager,
    Owner,
    TopicSettingError,
    UnknownTopicOrPartitionError,
    alter_configs as alter_topic_configs,
    alter_own_settings,
)
from ...consumer_groups.settings import check_group_settings
from ...context import Context
from ...request import Request
from .changes import Changes, incremental, malformed, replacing
from .of_nodes import check_may_change, check_values, is_of_node
from .resources import Resource, check_resource, check_this_node

# Arguments: the resource's configs, those that the older request replaces, and the request for the resource.
ChangesOf = Callable[[Mapping[str, str], Iterable[str], Any], Changes]


def incremental_alter_configs(request: Request, context: Context) -> None:
    """Changes the given configs, and keeps the others."""
    _alter(request, context, lambda own, _, asked: incremental(own, asked.configs))


def alter_configs(request: Request, context: Context) -> None:
    """Replaces all configs of a resource (the older request, which some clients still send)."""
    _alter(request, context, lambda _, replaced, asked: replacing(replaced, asked.configs))


def _alter(request: Request, context: Context, changes_of: ChangesOf) -> None:
    body = request.body
    reason_of = malformed(body.resources)

    def task(manager: LogManager) -> Mapping[str, Any]:
        return {
            "responses": [
                _altered(manager, context, each, changes_of, reason_of(each), is_dry=body.validate_only)
                for each in body.resources
            ]
        }

    context.workers.admin.answer(request, task)


def _altered(
    manager: LogManager, context: Context, asked: Any, changes_of: ChangesOf, reason: str | None, *, is_dry: bool
) -> Mapping[str, Any]:
    head = {"resource_type": asked.resource_type, "resource_name": asked.resource_name}
    try:
        if reason is not None:
            raise RequestError(ErrorCode.invalid_request, reason)
        _apply(manager, context, asked, changes_of, is_dry=is_dry)
    except Exception as error:
        return {**head, "error_code": code_of(error), "error_message": message_of(error)}
    return {**head, "error_message": None}


def _apply(manager: LogManager, context: Context, asked: Any, changes_of: ChangesOf, *, is_dry: bool) -> None:
    """Changes configs; on return they are in force here."""
    if asked.resource_type != Resource.BROKER:
        changes_of({}, (), asked)  # errors in the changes come first, as on a broker
    if asked.resource_name == "" and asked.resource_type == Resource.TOPIC:
        raise RequestError(ErrorCode.invalid_request, "settings for all topics are those of the broker resource ''")
    check_resource(context, asked)
    if asked.resource_type == Resource.TOPIC:
        own = _own_of(manager, asked, changes_of)
        alter_topic_configs(manager, asked.resource_name, changes_of(own, own, asked), dry_run=is_dry)
        if not is_dry:  # done here, because the file alone does not show that a new topic's settings have changed
            context.partitions.close_topics([asked.resource_name])
    elif asked.resource_type == Resource.GROUP:
        _alter_group(manager, context, asked, changes_of, is_dry=is_dry)
    else:
        _alter_nodes(manager, context, asked, changes_of, is_dry=is_dry)
    if not is_dry:
        context.settings.look()


def _own_of(manager: LogManager, asked: Any, changes_of: ChangesOf) -> Mapping[str, str]:
    """Returns the settings of a topic. Raises InvalidConfigError before an error that there is no such topic."""
    try:
        return manager.topic(asked.resource_name).configs
    except UnknownTopicOrPartitionError:
        given = {name: value for name, value in changes_of({}, (), asked).items() if value is not None}
        LogConfig.from_mapping(given)
        raise


def _alter_group(manager: LogManager, context: Context, asked: Any, changes_of: ChangesOf, *, is_dry: bool) -> None:
    name = asked.resource_name
    before = manager.topics_file().owned_by(Owner.GROUP, name)
    changes = changes_of(before, before, asked)
    alter_own_settings(
        manager, Owner.GROUP, name, changes, lambda own: check_group_settings(own, context.config), dry_run=is_dry
    )


def _alter_nodes(manager: LogManager, context: Context, asked: Any, changes_of: ChangesOf, *, is_dry: bool) -> None:
    """Changes settings of all nodes, or of one, which may change those of the directory too."""
    file, name = manager.topics_file(), asked.resource_name
    own = file.owned_by(Owner.NODE, name)
    logs = {each: value for each, value in file.broker.items() if name == "" or not is_of_node(each)}
    replaced = logs if name == "" else own  # kafka-configs does not know that log settings of a node apply to all
    changes = changes_of({**logs, **own}, replaced, asked)
    check_may_change(changes, of_all=name == "")
    of_node = {each: value for each, value in changes.items() if name != "" and is_of_node(each)}
    for_all = {each: value for each, value in changes.items() if each not in of_node}
    if any(value is not None for value in of_node.values()):
        check_this_node(context, name)

    def check(own: Mapping[str, str]) -> None:
        given = {each: value for each, value in {**file.broker, **for_all}.items() if value is not None}
        check_values(context, given, own)

    try:
        alter_own_settings(manager, Owner.NODE, name, of_node, check, for_all=for_all, dry_run=is_dry)
    except TopicSettingError as error:  # its text names a topic that the client may not see
        message = f"beside the settings of a topic: {error.reason}"
        raise RequestError(ErrorCode.invalid_request, message) from None
    except InvalidConfigError as error:  # Kafka has different codes for nodes and for topics
        raise RequestError(ErrorCode.invalid_request, str(error)) from None
