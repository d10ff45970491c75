"""Passwords: asked for on a terminal, without showing them, or read from stdin."""

from __future__ import annotations

import sys

import typer

from .output import fail


def asked_password(user: str, *, is_new: bool = False) -> str:
    """Returns the password of ``user``; a new one is asked for twice."""
    if sys.stdin.isatty():
        asked: str = typer.prompt(f"password of {user}", hide_input=True, confirmation_prompt=is_new, err=True)
        return asked
    line = sys.stdin.readline()
    if not line:
        fail("give the password on stdin, in one line")
    return line.removesuffix("\n")
