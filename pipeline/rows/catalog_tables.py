"""Tables of Spark's catalog, which a topic cannot be: Spark stores no options of sources that are written in Python."""

from __future__ import annotations

from collections.abc import Mapping

from ...storage import InvalidConfigError

# For CREATE TABLE without columns, Spark asks for the schema with the table's properties in place of the options.
_PROPERTIES = ("location", "owner")

_NO_TABLE = "a topic is no table of Spark's catalog, for which Spark stores no options: instead of"
VIEW = (
    f"{_NO_TABLE} CREATE TABLE, use CREATE TEMPORARY VIEW name USING commitlog OPTIONS (path "
    "'/path/to/the/log/directory', subscribe 'topic')"
)
SAVE = (
    f"{_NO_TABLE} CREATE TABLE ... AS SELECT, INSERT and saveAsTable, use df.write.format('commitlog').mode('append')"
    ".option('topic', 'name').save('/path/to/the/log/directory')"
)


def refuse_table(options: Mapping[str, str]) -> None:
    """Raises InvalidConfigError if the options of a read are the properties of a table of the catalog."""
    if any(name in options for name in _PROPERTIES):
        raise InvalidConfigError(VIEW)


def missing_path(call: str, options: Mapping[str, str], instead: str) -> InvalidConfigError:
    """Returns the error for options without ``path``; without any options, it may be a table that Spark asks for.

    ``instead`` is :data:`VIEW` or :data:`SAVE`.
    """
    message = f"option path is missing: use .{call}('/path/to/the/log/directory')"
    return InvalidConfigError(message if options else f"{message}; {instead}")
