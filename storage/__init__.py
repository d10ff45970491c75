"""Kafka's log as a Python module without any use of Spark. ``__init__.pyi`` lists its public names.

Names are loaded on first use (PEP 562): a program that lists topics must answer at once, so it must not import numba, a
codec or Arrow. The list is read as package data because ``spark-submit --py-files`` ships the package as a zip.
"""

import ast
from importlib.resources import files

import lazy_loader

_LINES = ast.parse(files(__name__).joinpath("__init__.pyi").read_text(encoding="utf-8")).body
_HOMES: dict[str, list[str]] = {}
for _line in _LINES:
    if isinstance(_line, ast.ImportFrom) and _line.module is not None:
        _HOMES.setdefault(_line.module, []).extend(alias.name for alias in _line.names)

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=_HOMES)
