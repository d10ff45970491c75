"""Settings files as Kafka's tools read them."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from ...storage import InvalidConfigError, parse_pairs


def settings_file(name: str) -> Path:
    """Returns ``conf/NAME`` in the working directory, or the file of that name that comes with the package."""
    here = Path("conf", name)
    return here if here.exists() else Path(str(files(__package__.partition(".")[0]) / here))


def properties(option: str, file: str | None) -> dict[str, str]:
    """Returns the settings in a Java properties file: one per line; lines that begin with # or ! are comments.

    None: no file, and no settings. Raises InvalidConfigError, which names the ``option``, if it cannot be read.
    """
    if file is None:
        return {}
    try:
        lines = [line.strip() for line in Path(file).read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "the file is not UTF-8"
        raise InvalidConfigError(f"{option} {file} cannot be read: {why}") from None
    return parse_pairs(f"{option} {file}", [line for line in lines if line and line[0] not in "#!"])
