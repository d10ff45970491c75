"""Loads classes that a user wrote, by name: ``package.module:Class``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module

from .errors import InvalidConfigError, LogStoreError

Option = int | float | str


def create_by_name(setting: str, path: str, options: Mapping[str, Option], *, example: str) -> object:
    """Returns an object of class ``path``, ``package.module:Class``, with ``options`` as keyword arguments.

    The module is searched for on Python's path, then in the current directory. ``setting`` names, in errors, the user's
    setting; ``example`` is an existing class. Raises InvalidConfigError if there is no such class, or if it cannot be
    created.
    """
    try:
        created: object = _class_of(path, example)(**options)
    except LogStoreError as error:
        raise InvalidConfigError(f"{setting}: {error}") from None
    except Exception as error:
        raise InvalidConfigError(
            f"{setting}: cannot be created with {_shown(options)}: {type(error).__name__}: {error}"
        ) from error
    return created


def number_or_text(text: str) -> Option:
    """Returns the int or float that ``text`` is, otherwise the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _class_of(path: str, example: str) -> type:
    module_name, colon, name = path.partition(":")
    if not colon or not module_name or not name:
        raise InvalidConfigError(f"expected package.module:Class, such as {example}")
    try:
        module = _module(module_name)
    except ImportError as error:
        raise InvalidConfigError(
            f"{error}; give the module with its package, install it, or, with spark-submit, pass it with --py-files"
        ) from error
    found = getattr(module, name, None)
    if not isinstance(found, type):
        raise InvalidConfigError(f"module {module_name} has no class {name!r}")
    return found


def _module(name: str) -> object:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0] or "" in sys.path:
            raise
    sys.path.append("")
    return import_module(name)


def _shown(options: Mapping[str, Option]) -> str:
    return ", ".join(f"{key}={value}" for key, value in options.items()) or "no options"
