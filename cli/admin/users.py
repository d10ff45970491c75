"""``commitlog users``: who may log in to a gateway, in the file that its setting ``commitlog.users.file`` names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..flags import only
from ..passwords import asked_password

File = Annotated[Path, typer.Option("--file", help="The file of users; --add creates it, readable only by its owner.")]
Add = Annotated[
    str | None,
    typer.Option(metavar="USER", help="Add a user, or change the password, which is asked for, or read from stdin."),
]
Remove = Annotated[str | None, typer.Option(metavar="USER", help="Remove a user.")]
List = Annotated[bool, typer.Option("--list", help="List the users.")]
Iterations = Annotated[
    int | None,
    typer.Option(help="With --add: how often SCRAM hashes the password; default: 4096, as Kafka.", show_default=False),
]


def users(
    *,
    file: File,
    add: Add = None,
    remove: Remove = None,
    show: List = False,
    iterations: Iterations = None,
) -> None:
    """Add, remove and list the users of a gateway. A gateway that runs sees a change at the next login.

    The file has what SCRAM-SHA-256 and SCRAM-SHA-512 need to know (RFC 5802): salted hashes, never a password.
    """
    from ...gateway.security.users import UsersFile  # noqa: PLC0415

    only(add=add is not None, remove=remove is not None, list=show)
    kept = UsersFile(str(file))
    if add is not None:
        counts = () if iterations is None else (iterations,)
        is_new = kept.add(add, asked_password(add, is_new=True), *counts)
        typer.echo(f"{'added' if is_new else 'changed the password of'} {add}")
    elif remove is not None:
        kept.remove(remove)
        typer.echo(f"removed {remove}")
    else:
        for user in sorted(kept.read()):
            typer.echo(user)
