"""DescribeConfigs: the configs of topics, of nodes, and of groups of consumers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import dropwhile
from typing import Any

from ....protocol.bodies import ErrorCode
from ....protocol.errors import code_of, message_of
from ....storage import GROUP_KEYS, Key, LogConfig, LogManager, Owner, keys_of
from ...consumer_groups.settings import BOUNDS
from ...context import Context
from ...request import Request
from ..brokers.of_node import NodeSetting, node_settings
from .resources import Resource, Source, check_resource, check_this_node, is_of_no_kind

_TYPES = {  # ``DescribeConfigsResponse.ConfigType`` by the name of ours
    "true or false": 1,
    "a text": 2,
    "a whole number of 32 bits": 3,
    "a whole number of 64 bits": 5,
    "a number": 6,
    "a comma-separated list": 7,
}
_NO_DEFAULT = frozenset({"flush.ms"})  # null on a broker, which means the interval of its scheduler
_REFUSED: dict[str, Any] = {
    "error_code": ErrorCode.invalid_request,
    "error_message": "the request names a resource of a kind that there is not",
    "configs": (),
}
TOPIC_KEYS: Mapping[str, Key] = {key.name: key for key in keys_of(LogConfig).values()}


def describe_configs(request: Request, context: Context) -> None:
    """Answers with the configs of topics and of the node."""

    def describe(manager: LogManager, asked: Any) -> Mapping[str, Any]:
        return _described(manager, request, context, asked)

    if any(map(is_of_no_kind, request.body.resources)):  # then a broker refuses all
        request.answer({"results": [_REFUSED | _head(each) for each in request.body.resources]})
        return
    context.workers.configs.answer_each(request, request.body.resources, describe, lambda results: {"results": results})


def _head(asked: Any) -> dict[str, Any]:
    return {"resource_type": asked.resource_type, "resource_name": asked.resource_name}


def _described(manager: LogManager, request: Request, context: Context, asked: Any) -> Mapping[str, Any]:
    head = _head(asked)
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
    """Returns a config with the fields that the request asks for."""
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
    check_resource(context, asked)
    name = asked.resource_name
    if asked.resource_type == Resource.TOPIC:
        topic = manager.topic(name)
        return described_topic_configs(topic.configs, topic.broker)
    if asked.resource_type == Resource.GROUP:
        return _configs_of_group(
            context, {} if context.is_remote else manager.topics_file().owned_by(Owner.GROUP, name)
        )
    check_this_node(context, name)
    own = {} if context.is_remote or name == "" else manager.topics_file().owned_by(Owner.NODE, name)
    broker = manager.broker_settings()
    settings = node_settings(context.config, context.log_path, [*broker, *own])
    started_with = {each.name: each.started_with for each in settings}
    levels = [
        (own, Source.BROKER),
        (broker, Source.ALL_BROKERS),
        (started_with, Source.STATIC_BROKER),
        ({each.name: each.default for each in settings}, Source.DEFAULT),
    ]
    if name == "":
        return [_of_node(each, [(broker, Source.ALL_BROKERS)]) for each in settings if each.name in broker]
    return [_of_node(each, levels) for each in settings]


def _configs_of_group(context: Context, own: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
    """Returns the configs of a group, and the origin of a default: the node's setting for all groups."""
    nodes = {each.name: each for each in node_settings(context.config, context.log_path)}
    found = []
    for name, key in GROUP_KEYS.items():
        of_node = nodes[BOUNDS[name].setting]
        levels = (
            (own.get(name), Source.GROUP),
            (of_node.started_with, Source.STATIC_BROKER),
            (of_node.default, Source.DEFAULT),
        )
        given = [
            _synonym(name if source is Source.GROUP else of_node.name, text, source)
            for text, source in levels
            if text is not None
        ]
        found.append({**_one(name, given[0]["value"], given[0]["source"], key), "synonyms": given})
    return found


def described_topic_configs(configs: Mapping[str, str], broker: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
    """Returns all configs of a topic as DescribeConfigs shows them; ``configs``: those set for the topic itself."""
    values = LogConfig.from_mapping(configs, broker=broker).to_mapping()
    return [_topic_config(key, values[name], configs, broker) for name, key in TOPIC_KEYS.items()]


def _topic_config(key: Key, text: str, configs: Mapping[str, str], broker: Mapping[str, str]) -> Mapping[str, Any]:
    given = [_synonym(each.name, broker[each.name], Source.ALL_BROKERS) for each in key.synonyms if each.name in broker]
    names = {each.name for each in key.synonyms[:1]}
    # A broker leaves out entries before the first name (``ConfigHelper.configSynonyms``).
    synonyms = list(dropwhile(lambda each: each["name"] not in names, [*given, *_defaults(key)]))
    if key.name in configs:
        synonyms.insert(0, _synonym(key.name, text, Source.TOPIC))
    first = synonyms[0] if key.name in configs else next(iter(given), {"source": Source.DEFAULT})
    return {**_one(key.name, text, first["source"], key), "synonyms": synonyms}


def _defaults(key: Key) -> Sequence[Mapping[str, Any]]:
    """Returns the broker config that has the default: if it exists in several units of time, the longest unit."""
    if not key.synonyms or key.name in _NO_DEFAULT:
        return ()
    synonym = key.synonyms[-1]
    default = key.default if len(key.synonyms) == 1 else key.default // synonym.convert(1)
    return (_synonym(synonym.name, key.kind.render(default), Source.DEFAULT),)


Levels = Sequence[tuple[Mapping[str, str | None], Source]]  # the first that has a value counts


def _of_node(setting: NodeSetting, levels: Levels) -> Mapping[str, Any]:
    """Returns a setting of a node; its synonyms are a broker's names that rank below it (``configSynonyms``)."""
    given = [
        _synonym(name, text, source)
        for values, source in levels
        for name in setting.names
        if (text := values.get(name)) is not None
    ]
    synonyms = list(dropwhile(lambda each: each["name"] != setting.name, given))
    value = next((each["value"] for each in synonyms if each["name"] == setting.name), None)
    source = synonyms[0]["source"] if synonyms else Source.DEFAULT
    return {
        **_one(setting.name, value, source, setting.key),
        "read_only": setting.is_read_only,
        "is_sensitive": setting.is_sensitive,
        "synonyms": [] if setting.is_sensitive else synonyms,
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
