"""PrincipalRules: ``ssl.principal.mapping.rules``, which names users by their certificates, as ``SslPrincipalMapper``.

Rules are separated by commas: ``DEFAULT``, the whole name; or ``RULE:pattern/replacement/``, with ``L`` or ``U`` after
it for lower or upper case. The first rule whose pattern matches the whole name counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ....storage import InvalidConfigError
from ..scram import LoginError

SETTING = "ssl.principal.mapping.rules"
_TEXT = r"(?:\\.|[^\\/])*"
_RULE = re.compile(
    rf"\s*(?:(?P<whole>DEFAULT)|RULE:(?P<pattern>{_TEXT})/(?P<replacement>{_TEXT})/(?P<case>[LU]?)|)\s*(?P<end>,|\Z)"
)
_PART = re.compile(r"\\(?P<escaped>.)|\$(?P<number>\d+)|\$\{(?P<name>\w+)\}|(?P<text>[^\\$]+|.)", re.DOTALL)


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    replacement: Callable[[re.Match[str]], str]
    case: str  # L, U, or "" for the case that it has


class PrincipalRules:
    """The rules, in their order."""

    def __init__(self, given: str) -> None:
        """Raises InvalidConfigError for a rule of another form, and for a pattern that is no regular expression."""
        self._rules: Sequence[_Rule | None] = list(_parsed(given))  # None: the whole name

    def name(self, subject: str) -> str:
        """Returns the user for the name of a certificate, such as ``CN=app,O=company``. Raises LoginError for none."""
        for rule in self._rules:
            if rule is None:
                return subject
            if rule.pattern.fullmatch(subject):
                found = rule.pattern.sub(rule.replacement, subject)
                return {"L": found.lower(), "U": found.upper()}.get(rule.case, found)
        raise LoginError(f"Failed to map name for '{subject}' based on SSL principal mapping rules.")


def _parsed(given: str) -> Sequence[_Rule | None]:
    found, position, text = list[_Rule | None](), 0, given.strip()
    while position < len(text):
        each = _RULE.match(text, position)
        if each is None:
            raise InvalidConfigError(
                f"{SETTING}: {text[position:]!r} must be DEFAULT, or like RULE:^CN=(.*?),.*$/$1/L; with commas between"
            )
        position = each.end()
        if each["whole"]:
            found.append(None)
        elif each["pattern"] is not None:
            found.append(_rule(each["pattern"], each["replacement"], each["case"]))
    return found


def _rule(pattern: str, replacement: str, case: str) -> _Rule:
    try:
        compiled = re.compile(pattern, re.ASCII)
        return _Rule(compiled, _replacement(compiled, replacement), case)
    except (re.error, IndexError) as error:
        raise InvalidConfigError(f"{SETTING}: RULE:{pattern}/{replacement}/: {error}") from None


def _replacement(pattern: re.Pattern[str], given: str) -> Callable[[re.Match[str]], str]:
    """Returns a function that builds the replacement for a match.

    Java's rules: ``$1`` and ``${name}`` are groups, ``\\`` escapes. ``$12`` is group 1 and a 2 if there is no group 12;
    a reference to a missing group stays as written.
    """
    parts: list[str | int] = []
    for each in _PART.finditer(given):
        if each["number"] is not None:
            parts += _numbered(each["number"], pattern.groups)
        elif each["name"] is not None:
            parts.append(pattern.groupindex[each["name"]] if each["name"] in pattern.groupindex else each[0])
        else:
            parts.append(each["escaped"] or each["text"])
    return lambda match: "".join(each if isinstance(each, str) else match[each] or "" for each in parts)


def _numbered(digits: str, groups: int) -> list[str | int]:
    for length in range(len(digits), 0, -1):
        if int(digits[:length]) <= groups and (length == 1 or digits[0] != "0"):
            return [int(digits[:length]), digits[length:]]
    return ["$" + digits]
