"""DescribeConfigs, IncrementalAlterConfigs and AlterConfigs, for topics and for the node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from itertools import dropwhile
from typing import Any

from ...protocol import ErrorCode, RequestError, code_of, message_of
from ...storage import (
    InvalidConfigError,
    Key,
    LogConfig,
    LogManager,
    TopicSettingError,
    alter_broker_settings,
    alter_configs as alter_topic_configs,
    keys_of,
)
from ..context import Context
from ..request import Request
from .brokers import NodeSetting, node_settings
from .metadata import is_legal


class Resource(IntEnum):
    """The kinds of resources with configs (``ConfigResource.Type``)."""

    TOPIC = 2
    BROKER = 4


class Source(IntEnum):
    """The origin of a config's value (``DescribeConfigsResponse.ConfigSource``)."""

    TOPIC = 1
    ALL_BROKERS = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Operation(IntEnum):
    """How a config is changed (``AlterConfigOp.OpType``)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_TYPES = {  # ``DescribeConfigsResponse.ConfigType`` by the name of ours
    "true or false": 1,
    "a text": 2,
    "a whole number of 32 bits": 3,
    "a whole number of 64 bits": 5,
    "a number": 6,
    "a comma-separated list": 7,
}
_LIST = 7
_NO_DEFAULT = frozenset({"flush.ms"})  # null on a broker, which means the interval of its scheduler
TOPIC_KEYS: Mapping[str, Key] = {key.name: key for key in keys_of(LogConfig).values()}

Changes = Mapping[str, str | None]  # None: back to the default


# --- DescribeConfigs


def describe_configs(request: Request, context: Context) -> None:
    """Answers with the configs of topics and of the node."""

    def describe(manager: LogManager, asked: Any) -> Mapping[str, Any]:
        return _described(manager, request, context, asked)

    context.workers.configs.answer_each(request, request.body.resources, describe, lambda results: {"results": results})


def _described(manager: LogManager, request: Request, context: Context, asked: Any) -> Mapping[str, Any]:
    head = {"resource_type": asked.resource_type, "resource_name": asked.resource_name}
    body = request.body
    try:
        configs = _configs_of(manager, context, asked)
        wanted = frozenset(asked.configuration_keys or [each["name"] for each in configs])
        shown = [_shown(body, each) for each in configs if each["name"] in wanted]
        request.reserve(sum(map(_bytes_of, shown)))
    except Exception as error:
        return {**head, "error_code": code_of(error), "error_message": message_of(error), "configs": ()}
    return {**head, "error_message": "", "configs": shown}


def _shown(body: Any, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a config with what the request asks for."""
    return {
        **config,
        "synonyms": config["synonyms"] if getattr(body, "include_synonyms", False) else (),
        "is_default": config["config_source"] == Source.DEFAULT,
        "documentation": config["documentation"] if getattr(body, "include_documentation", False) else None,
    }


def _bytes_of(config: Mapping[str, Any]) -> int:
    """Returns about how many bytes of an answer a config takes."""
    texts = [config["name"], config["value"], config["documentation"]]
    texts += [text for each in config["synonyms"] for text in (each["name"], each["value"])]
    return sum(len(each or "") + 4 for each in texts)


def _configs_of(manager: LogManager, context: Context, asked: Any) -> Sequence[Mapping[str, Any]]:
    if asked.resource_type == Resource.TOPIC:
        _check_topic_name(asked.resource_name)
        topic = manager.topic(asked.resource_name)
        return described_topic_configs(topic.configs, topic.broker)
    _check_this_broker(context, asked)
    broker = manager.broker_settings()
    if asked.resource_name == "":
        return [_one(name, text, Source.ALL_BROKERS) for name, text in broker.items()]
    return [_of_node(each, broker) for each in node_settings(context.config, context.log_path, broker)]


def described_topic_configs(configs: Mapping[str, str], broker: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
    """Returns all configs of a topic as DescribeConfigs shows them; ``configs``: those set for the topic itself."""
    values = LogConfig.from_mapping(configs, broker=broker).to_mapping()
    return [_topic_config(key, values[name], configs, broker) for name, key in TOPIC_KEYS.items()]


def _topic_config(key: Key, text: str, configs: Mapping[str, str], broker: Mapping[str, str]) -> Mapping[str, Any]:
    given = [_synonym(each.name, broker[each.name], Source.ALL_BROKERS) for each in key.synonyms if each.name in broker]
    names = {each.name for each in key.synonyms[:1]}
    # A broker leaves out what comes before the first name (``ConfigHelper.configSynonyms``).
    synonyms = list(dropwhile(lambda each: each["name"] not in names, [*given, *_defaults(key)]))
    if key.name in configs:
        synonyms.insert(0, _synonym(key.name, configs[key.name], Source.TOPIC))
    first = synonyms[0] if key.name in configs else next(iter(given), {"source": Source.DEFAULT})
    return {**_one(key.name, text, first["source"], key), "synonyms": synonyms}


def _defaults(key: Key) -> Sequence[Mapping[str, Any]]:
    """Returns the broker config that has the default: of several units of time, the one with the longest unit."""
    if not key.synonyms or key.name in _NO_DEFAULT:
        return ()
    synonym = key.synonyms[-1]
    default = key.default if len(key.synonyms) == 1 else key.default // synonym.convert(1)
    return (_synonym(synonym.name, key.kind.render(default), Source.DEFAULT),)


def _of_node(setting: NodeSetting, broker: Mapping[str, str]) -> Mapping[str, Any]:
    source = Source.STATIC_BROKER if setting.value != setting.default else Source.DEFAULT
    source = Source.ALL_BROKERS if setting.name in broker else source
    synonyms = [_synonym(setting.name, setting.value, source)] if setting.value is not None else []
    if source is not Source.DEFAULT and setting.default is not None:
        synonyms.append(_synonym(setting.name, setting.default, Source.DEFAULT))
    return {
        **_one(setting.name, setting.value, source, setting.key),
        "read_only": setting.is_read_only,
        "is_sensitive": setting.is_sensitive,
        "synonyms": synonyms,
        **({"config_type": setting.type} if setting.type else {}),
        "documentation": setting.doc,
    }


def _synonym(name: str, text: str | None, source: Source) -> dict[str, Any]:
    return {"name": name, "value": text, "source": source}


def _one(name: str, text: str | None, source: Source, key: Key | None = None) -> Mapping[str, Any]:
    return {
        "name": name,
        "value": text,
        "read_only": False,
        "config_source": source,
        "is_sensitive": False,
        "synonyms": [_synonym(name, text, source)],
        "config_type": 0 if key is None else _TYPES[key.kind.name],
        "documentation": None if key is None else key.doc,
    }


# --- AlterConfigs


def incremental_alter_configs(request: Request, context: Context) -> None:
    """Changes the given configs, and keeps the others."""
    _alter(request, context, lambda own, asked: _incremental(own, asked.configs))


def alter_configs(request: Request, context: Context) -> None:
    """Replaces all configs of a resource (the older request, which some clients still send)."""
    _alter(request, context, lambda own, asked: _replacing(own, asked.configs))


def _replacing(own: Mapping[str, str], configs: Sequence[Any]) -> Changes:
    _check_once(configs)
    for each in configs:
        if each.value is None:
            raise _no_value(each.name)
    return {**dict.fromkeys(own), **{each.name: each.value for each in configs}}


def _incremental(own: Mapping[str, str], configs: Sequence[Any]) -> Changes:
    _check_once(configs)
    changes: dict[str, str | None] = {}
    for each in configs:
        if each.config_operation == Operation.DELETE:
            if each.name in own:
                changes[each.name] = None
        elif each.value is None:
            raise _no_value(each.name)
        elif each.config_operation == Operation.SET:
            changes[each.name] = each.value
        elif each.config_operation in (Operation.APPEND, Operation.SUBTRACT):
            changes[each.name] = _changed_list(own, each)
        else:
            raise RequestError(ErrorCode.invalid_request, f"there is no operation {each.config_operation}")
    return changes


def _changed_list(own: Mapping[str, str], change: Any) -> str:
    key = TOPIC_KEYS.get(change.name)
    if key is None or _TYPES[key.kind.name] != _LIST:
        raise InvalidConfigError(
            f"{change.name} is not a list: set it instead of appending to it or subtracting from it"
        )
    before = dict.fromkeys(own.get(change.name, key.kind.render(key.default)).split(","))
    given = dict.fromkeys(change.value.split(","))
    if change.config_operation == Operation.APPEND:
        kept = [*before, *(each for each in given if each not in before)]
    else:
        kept = [each for each in before if each not in given]
    return ",".join(filter(None, kept))


def _no_value(name: str) -> RequestError:
    return RequestError(ErrorCode.invalid_request, f"{name} has no value")


def _check_once(configs: Sequence[Any]) -> None:
    twice = [name for name, times in Counter(each.name for each in configs).items() if times > 1]
    if twice:
        raise RequestError(ErrorCode.invalid_request, f"the request has {', '.join(twice)} more than once")


def _alter(request: Request, context: Context, changes_of: Callable[[Mapping[str, str], Any], Changes]) -> None:
    body = request.body
    times = Counter((each.resource_type, each.resource_name) for each in body.resources)

    def changes_once(own: Mapping[str, str], asked: Any) -> Changes:
        if times[asked.resource_type, asked.resource_name] > 1:
            raise RequestError(ErrorCode.invalid_request, "the request names the resource more than once")
        return changes_of(own, asked)

    def task(manager: LogManager) -> Mapping[str, Any]:
        return {
            "responses": [
                _altered(manager, context, each, changes_once, is_dry=body.validate_only) for each in body.resources
            ]
        }

    context.workers.admin.answer(request, task)


def _altered(
    manager: LogManager,
    context: Context,
    asked: Any,
    changes_of: Callable[[Mapping[str, str], Any], Changes],
    *,
    is_dry: bool,
) -> Mapping[str, Any]:
    head = {"resource_type": asked.resource_type, "resource_name": asked.resource_name}
    try:
        _apply(manager, context, asked, changes_of, is_dry=is_dry)
    except Exception as error:
        return {**head, "error_code": code_of(error), "error_message": message_of(error)}
    return {**head, "error_message": None}


def _apply(
    manager: LogManager,
    context: Context,
    asked: Any,
    changes_of: Callable[[Mapping[str, str], Any], Changes],
    *,
    is_dry: bool,
) -> None:
    """Changes configs, and opens the topic's open logs again with the new values."""
    if asked.resource_type == Resource.TOPIC:
        if asked.resource_name == "":
            raise RequestError(ErrorCode.invalid_request, "settings for all topics are those of the broker resource ''")
        _check_topic_name(asked.resource_name)
        own = manager.topic(asked.resource_name).configs
        alter_topic_configs(manager, asked.resource_name, changes_of(own, asked), dry_run=is_dry)
        changed = [asked.resource_name]
    else:
        _check_broker(context, asked)
        try:
            alter_broker_settings(manager, changes_of(manager.broker_settings(), asked), dry_run=is_dry)
        except TopicSettingError as error:  # whose text names a topic that the client may not see
            message = f"beside the settings of a topic: {error.reason}"
            raise RequestError(ErrorCode.invalid_request, message) from None
        except InvalidConfigError as error:  # for nodes Kafka has another code than for topics
            raise RequestError(ErrorCode.invalid_request, str(error)) from None
        changed = list(context.topics.all())
    if not is_dry:
        context.partitions.close_topics(changed)


def _check_topic_name(name: str) -> None:
    if not is_legal(name):
        raise RequestError(ErrorCode.invalid_topic_exception, f"a topic cannot be named {name!r}")


def _check_broker(context: Context, asked: Any) -> None:
    """Raises RequestError unless the resource is a live node, or all nodes, which share the directory's settings."""
    if asked.resource_type != Resource.BROKER:
        raise RequestError(
            ErrorCode.invalid_request, f"there are no configs of resources of kind {asked.resource_type}"
        )
    name = asked.resource_name
    if name == "":
        return
    if not (name.isascii() and name.isdigit()):
        raise RequestError(
            ErrorCode.invalid_request,
            f"the name of a broker resource must be a node's number, or empty for all nodes; not {name!r}",
        )
    nodes = [str(node) for node in sorted(context.cluster.view.nodes)]
    if name not in nodes:
        raise RequestError(ErrorCode.invalid_request, f"there is no node {name}; live nodes: {', '.join(nodes)}")


def _check_this_broker(context: Context, asked: Any) -> None:
    """Like :meth:`_check_broker`, but refuses other nodes: only a node itself knows its settings."""
    _check_broker(context, asked)
    own = context.config.node_id
    if asked.resource_name not in ("", str(own)):
        raise RequestError(
            ErrorCode.invalid_request, f"this is node {own}: ask node {asked.resource_name} for its configs"
        )
