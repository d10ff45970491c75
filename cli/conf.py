"""``commitlog conf``: prints the files of settings that come with the package."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Annotated

import typer

from ..storage import did_you_mean
from .output import fail

_NOT_SETTINGS = (".py", ".pyc")


def conf(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The file, such as gateway.toml; default: list all files.")
    ] = None,
) -> None:
    """Print a file of settings, dashboards, alerts or schedules: commitlog conf gateway.toml > gateway.toml."""
    known = settings_files()
    if name is None:
        typer.echo("\n".join(known))
    elif name not in known:
        fail(f"no file {name!r}{did_you_mean(name, known) or '; there are ' + ', '.join(known)}", code=2)
    else:
        typer.echo(known[name].read_text(encoding="utf-8"), nl=False)


def settings_files() -> dict[str, Traversable]:
    """Returns the files of ``conf/`` by their paths below it, in order."""
    return dict(sorted(_below(files(__package__.partition(".")[0]) / "conf", "")))


def _below(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found = list[tuple[str, Traversable]]()
    for each in folder.iterdir():
        if each.is_dir():
            found += _below(each, f"{prefix}{each.name}/") if each.name != "__pycache__" else []
        elif not each.name.endswith(_NOT_SETTINGS) or prefix == "schedule/":
            found.append((f"{prefix}{each.name}", each))
    return found
