"""CONTRIBUTING names every room, the rooms inside it, every module beside the rooms, and no room that is missing."""

from __future__ import annotations

import re

import pytest

from tests.test_layering import FLOORS, HEIGHT, ROOT, rooms

ROOMS = rooms()
FOLDERS = [folder for folder in FLOORS if "/" not in folder]
BEGIN, END = "## Where things are", "## Rules"
HEAD = re.compile(r"\| room of `(\w+)/`|`(\w+)/` is one room")
ROOM, NAME = re.compile(r"`(\w+)/`"), re.compile(r"`(\w+)/?`")


def blocks() -> dict[str, str]:
    """Returns the table, or the paragraph, about the rooms of each folder."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = text[text.index(BEGIN) : text.index(END)].split("\n\n")
    return {head[1] or head[2]: block for block in found if (head := HEAD.match(block))}


def rows(folder: str) -> dict[str, str]:
    """Returns what the map says of each room of a folder; "" for the modules beside the rooms."""
    block = blocks()[folder]
    if not block.startswith("|"):
        return {"": block}
    cells = [line.split("|")[1:3] for line in block.splitlines()[2:]]
    return {name: subject for names, subject in cells for name in ROOM.findall(names) or [""]}


def inside(room: str) -> list[str]:
    """Returns the rooms inside a room."""
    return [each.removeprefix(f"{room}/") for each in ROOMS if each.startswith(f"{room}/")]


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_map_names_every_room_and_every_module_beside_the_rooms(folder: str) -> None:
    here = {name for home, name in HEIGHT if home == folder}
    folders = {name for name in here if (ROOT / folder / name / "__init__.py").exists()}
    map_of = rows(folder)
    assert {name for name in map_of if name} - folders == set(), "which are not there"
    assert folders - map_of.keys() - {*ROOM.findall(map_of[""])} == set()
    modules = {name for name in here if (ROOT / folder / f"{name}.py").exists()}
    assert modules - {*NAME.findall(map_of[""])} == set()


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_row_of_a_room_names_the_rooms_inside_it(folder: str) -> None:
    named = {f"{folder}/{name}": ROOM.findall(subject) for name, subject in rows(folder).items() if name}
    assert {room: each for room in named for each in inside(room) if each not in named[room]} == {}
