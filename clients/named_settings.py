"""Settings of clients: fields of a dataclass that have a name in Kafka 0.7 and perhaps another one in 0.8."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any

from ..storage import InvalidConfigError, Key, did_you_mean, keys_of

SECURITY = ("security.", "sasl.", "ssl.")  # prefixes of settings of today's wire: librdkafka checks them


def setting(name: str, kind: Any, default: Any, bounds: Any, doc: str, newer: str = "") -> Any:
    """Returns a field. ``newer``: the name that 0.8 gave it. A default of None depends on other settings."""
    return field(default=default, metadata={"key": Key(name, kind, default, bounds, doc), "newer": newer})


def check_settings(config: Any) -> None:
    """Checks and converts all values of a config that is being created. Raises InvalidConfigError."""
    for name, key in keys_of(type(config)).items():
        value = getattr(config, name)
        if value is not None or key.default is not None:
            object.__setattr__(config, name, key.check(value))


def fields_given(cls: Any, mapping: Mapping[str, object], whose: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the values by names of fields, and those of :data:`SECURITY` by their own names.

    ``whose``: settings, in errors, such as ``a consumer``. Raises InvalidConfigError for an unknown name, or a setting
    that is given by both names.
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
            raise InvalidConfigError(f"{name} is given twice, by its names in Kafka 0.7 and in 0.8")
        else:
            given[named[name]] = value
    return given, security
