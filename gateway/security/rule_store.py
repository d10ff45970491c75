"""RuleStore: the rules in force, from the file of rules and the file of ACLs.

Administrators write the first, the gateway writes the second; so no request ever rewrites a file that a person wrote,
with its comments and order (``docs/decisions/acls_beside_rules.md``).
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable, Iterable, Sequence

from ...storage import InvalidConfigError
from .acls import Acl, AclFilter, FileAcl
from .acls_file import Acls, acls_file
from .rules import Rule, Rules, parse_rules
from .whole_file import Looks, Watched

ACLS_ENDING = ".acls.json"  # suffix of the ACLs file, after the name of the rules file


class RuleStore:
    """The rules in force. For any thread.

    A change of a file takes effect within a second; if it has an error, that is logged and the old rules stay. A change
    by :meth:`create` or :meth:`delete` is in force here before they return.
    """

    def __init__(
        self,
        rules_path: str,
        acls_path: str = "",
        super_users: Iterable[str] = (),
        now_s: Callable[[], float] = time.monotonic,
        *,
        allows_without_acls: bool = False,
    ) -> None:
        """Reads the files. ``rules_path``: "" for none. ``acls_path``: "" for the one beside the file of rules.

        Raises OSError if a file cannot be read, and InvalidConfigError if a rule is wrong.
        """
        self._super_users, self._looks = frozenset(super_users), Looks(now_s)
        self._allows_without_acls = allows_without_acls
        self._rules = Watched(rules_path, lambda: _read_rules(rules_path), "rules") if rules_path else None
        self._acls = acls_file(acls_path or rules_path + ACLS_ENDING)
        self._current = self._made()

    def current(self) -> Rules:
        """Returns the rules, read again if a file has changed."""
        self._looks.run(self._look)
        return self._current

    def create(self, acls: Iterable[Acl]) -> None:
        """Adds valid ACLs; they are synced and in force on return. Raises the errors of KeptFile.change."""
        self._change(lambda before: tuple(dict.fromkeys([*before, *acls])))

    def delete(self, filters: Sequence[AclFilter]) -> list[list[Acl]]:
        """Deletes ACLs; this is synced and in force on return. Returns the matches of each filter.

        Entries of the rules file, :class:`FileAcl`, are found but stay. Raises the errors of KeptFile.change.
        """
        found: list[list[Acl]] = []

        def kept(before: Acls) -> Acls:
            ruled = [acl for rule in self._ruled() for acl in rule.acls()]
            found[:] = [[acl for acl in [*ruled, *before] if each.matches(acl)] for each in filters]
            deleted = {acl for each in found for acl in each if not isinstance(acl, FileAcl)}
            return tuple(acl for acl in before if acl not in deleted)

        self._change(kept)
        return found

    def _change(self, change: Callable[[Acls], Acls]) -> None:
        with self._looks.lock:
            self._acls.change(change)
            self._current = self._made()

    def _look(self) -> None:
        has_new_rules = self._rules is not None and self._rules.look()
        if self._acls.look() or has_new_rules:
            self._current = self._made()

    def _ruled(self) -> Sequence[Rule]:
        return () if self._rules is None else self._rules.content

    def _made(self) -> Rules:
        return Rules(
            self._ruled(), self._super_users, self._acls.content, allows_without_acls=self._allows_without_acls
        )


def _read_rules(path: str) -> Sequence[Rule]:
    with open(path, "rb") as file:
        try:
            return parse_rules(tomllib.load(file))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, InvalidConfigError) as error:
            raise InvalidConfigError(f"{path}: {error}") from None
