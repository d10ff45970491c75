"""Functions that the requests about groups share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from ...context import Context
from ...groups.coordinator import GroupCoordinator
from ...request import Request
from ...threads.answers import Turns

Item = TypeVar("Item")
T = TypeVar("T")


def ask(request: Request, context: Context, task: Callable[[GroupCoordinator], None], is_patient: bool = False) -> None:
    """Runs ``task``, which answers the request at once or later, in the coordinator's thread."""
    context.groups.run(request.or_fail(task), is_patient=is_patient)


def ask_each(
    request: Request,
    context: Context,
    items: Sequence[Item],
    question: Callable[[GroupCoordinator, Item, Callable[[T], None]], None],
    done: Callable[[Sequence[T]], None],
) -> None:
    """Asks the coordinator about each item, in turns with other requests; ``done`` gets all answers."""
    Turns(partial(ask, request, context), items, question, request.or_fail(done)).start()
