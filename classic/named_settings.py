"""Settings of clients: dataclass fields with a name in Kafka 0.7, and some with another one in 0.8."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from enum import Enum
from typing import Any, TypeVar

from ..storage import InvalidConfigError, Key, did_you_mean, keys_of

E = TypeVar("E", bound=Enum)
SECURITY = ("security.", "sasl.", "ssl.")  # prefixes of settings of today's wire: librdkafka checks them


def setting(name: str, kind: Any, default: Any, bounds: Any, doc: str, newer: str = "") -> Any:
    """Returns a field. ``newer``: its name in 0.8. Default None: it depends on other settings."""
    return field(default=default, metadata={"key": Key(name, kind, default, bounds, doc), "newer": newer})


def check_settings(config: Any) -> None:
    """Checks and converts all values of a config that is being created. Raises InvalidConfigError."""
    for name, key in keys_of(type(config)).items():
        value = getattr(config, name)
        if value is not None or key.default is not None:
            object.__setattr__(config, name, key.check(value))


def only_given(config: Any, kinds: type[E], whose: str) -> E:
    """Returns the only one of ``kinds`` whose setting is given; their values are names of settings.

    ``whose``: the owner of the settings, for errors, such as ``a consumer``. Raises InvalidConfigError if none is
    given, or several.
    """
    values = {key.name: getattr(config, name) for name, key in keys_of(type(config)).items()}
    given = [each for each in kinds if values[each.value]]
    names = ", ".join(each.value for each in kinds)
    if not given:
        raise InvalidConfigError(f"{whose} needs one of {names}")
    if len(given) > 1:
        both = " and ".join(each.value for each in given)
        raise InvalidConfigError(f"{both} are both given; {whose} needs one of {names}")
    return given[0]


def fill_defaults(config: Any, defaults: Mapping[str, object]) -> None:
    """Sets the fields that are not given, by name, in a config that is being created."""
    for name, value in defaults.items():
        if getattr(config, name) in (None, ""):
            object.__setattr__(config, name, value)


def fields_given(cls: Any, mapping: Mapping[str, object], whose: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the values by field name; those of :data:`SECURITY` keep their own names.

    ``whose``: the owner of the settings, for errors, such as ``a consumer``. Raises InvalidConfigError for an unknown
    name, or a setting that is given by both names.
    """
    named = {key.name: name for name, key in keys_of(cls).items()}
    named |= {each.metadata["newer"]: each.name for each in fields(cls) if each.metadata.get("newer")}
    given: dict[str, Any] = {}
    security = {}
    for name, value in mapping.items():
        if name.startswith(SECURITY):
            security[name] = str(value)
        elif name not in named:
            raise InvalidConfigError(f"unknown setting of {whose}: {name}{did_you_mean(name, named)}")
        elif named[name] in given:
            raise InvalidConfigError(f"{name} is given twice, by its name in Kafka 0.7 and by its name in 0.8")
        else:
            given[named[name]] = value
    return given, security
