"""GroupCoordinator: groups of the classic protocol and their offsets; follows Kafka 3.9.1's ``GroupCoordinator``.

It runs in one thread and knows no sockets: answers that take time are passed to a callback. Members, generations and
timers are in memory; what must survive a restart is stored before it is answered. It holds every group that ever had a
member. Groups that only have offsets are read from ``__consumer_offsets`` when a request names them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple
from uuid import uuid4

from ...protocol.bodies import ErrorCode
from ...storage import (
    CONSUMER,
    Clock,
    GroupKey,
    GroupMetadataKey,
    GroupMetadataValue,
    GroupsInUse,
    GroupValue,
    LockHeldError,
    LogDirLockedError,
    LogStoreError,
    OffsetCommitKey,
    ReadFailures,
    StorageError,
    TopicPartition,
)
from ..cluster.homes import Homes
from ..config import GatewayConfig
from ..consumer_groups.partitions import Catalog
from ..consumer_groups.settings import GroupTimes, SettingsOf, no_settings
from ..threads.disk import Home
from ..threads.said import Said
from .classic_members import ClassicMembers
from .consumers import READ_AGAIN_MS, Consumers
from .expiry import is_of_sink
from .group import Group, State
from .membership import Membership
from .offsets import Offsets
from .rebalancing import Groups, Rebalancing
from .store import GroupStore, deletions_of, run_later, stored_offset_code, tombstones_of

CLASSIC = "classic"
# Errors that say nothing of the records. A partition that counted as loaded after one of them would have no members, so
# anyone could commit for its groups or delete them.
_MAY_PASS = (StorageError, LockHeldError, LogDirLockedError, OSError)
HOLD_AGAIN_MS = 100  # commands and other nodes let a group go within milliseconds

logger = logging.getLogger(__name__)


class ListedGroup(NamedTuple):
    """A group in the answer to ListGroups."""

    name: str
    protocol_type: str
    state: str
    type: str = CLASSIC


@dataclass(frozen=True)
class DescribedMember:
    """A member in the answer to DescribeGroups."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True)
class DescribedGroup:
    """A group in the answer to DescribeGroups; the state Dead means that there is no such group."""

    error: ErrorCode
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""  # of a stable group
    members: Sequence[DescribedMember] = ()


class GroupCoordinator:
    """The coordinator of the groups that this node leads. Its methods may be called only in the thread of ``home``."""

    def __init__(
        self,
        config: GatewayConfig,
        clock: Clock,
        home: Home,
        store: GroupStore,
        new_id: Callable[[], object] = uuid4,
        homes: Homes | None = None,
        in_use: GroupsInUse | None = None,
        catalog: Callable[[], Catalog] = dict,
        settings_of: SettingsOf = no_settings,
    ) -> None:
        """Knows no group before :meth:`load`. ``new_id`` returns the unique part of a new member's id.

        ``homes``: which groups this node coordinates; None: all. ``in_use`` keeps command-line programs from changing
        groups with members; None: nothing does. ``catalog`` returns the topics that groups of Kafka 4 can read,
        ``settings_of`` the settings of a group.
        """
        self._groups = Groups(
            *(config, clock, home, store, homes or Homes()),
            catalog=catalog,
            on_changed=self.reassign,
            in_use=in_use,
        )
        self._loading: set[int] = set()  # partitions that are being read, or whose read will be repeated
        self._failed: set[int] = set()  # partitions whose last read failed
        self._said = Said(logger)
        rebalancing = Rebalancing(self._groups)
        self.consumers = Consumers(self._groups, GroupTimes(config, settings_of), rebalancing, self._restore_all)
        in_newer = ClassicMembers(self._groups, self.consumers, new_id)
        self.membership = Membership(self._groups, rebalancing, new_id, self.consumers.replace_empty, in_newer)
        self.offsets = Offsets(self._groups, rebalancing)

    # Beginning and end

    def load(self) -> None:
        """Reads the groups that this node has; until then requests for them get COORDINATOR_LOAD_IN_PROGRESS.

        Partitions that cannot be read now are read again every second. Also starts the timer that expires offsets.
        """
        self.reassign()
        self._expire_later()

    def reassign(self) -> None:
        """Reads the groups of partitions that this node now leads, and forgets those that it no longer leads."""
        own = self._groups.homes.own()
        self._groups.loaded &= own
        for group in list(self._groups.by_name.values()):
            if self._groups.homes.home_of(group.name) not in self._groups.loaded:
                self._leave(group)
        self.consumers.forget_others()
        came = own - self._groups.loaded - self._loading
        if not came:
            return
        self._loading |= came
        failures: ReadFailures = {}
        self._groups.store.ask(
            lambda store: store.contents(failures, partitions=came),
            lambda contents: self._loaded(came, contents, failures),
            lambda error: self._loaded(came, {}, {**dict.fromkeys(came, error), **failures}),
        )

    def _leave(self, group: Group) -> None:
        """Forgets a group that another node now coordinates, or that will be read again.

        Its members find their coordinator.
        """
        self.membership.rebalancing.give_up(group)
        self._groups.forget(group)

    def _loaded(
        self, homes: set[int], contents: Mapping[GroupKey, GroupValue], failures: Mapping[int, Exception]
    ) -> None:
        unread = {home for home, failure in failures.items() if isinstance(failure, _MAY_PASS)}
        for failure in dict.fromkeys(failures.values()):
            self._say_failed(failure)
        if unread:
            run_later(self._groups.home, READ_AGAIN_MS, partial(self._load_again, unread))
        self._loading -= homes - unread
        self._groups.unreadable = self._groups.unreadable - homes | unread & self._failed
        self._failed = self._failed - homes | unread
        came = homes & self._groups.homes.own() - self._groups.loaded - unread
        self._restore_all(contents, came)
        self._groups.loaded |= came
        if came:
            logger.info("loaded %d groups", len(self._groups.by_name) + len(self._groups.consumers))
        self.reassign()  # the changes that arrived during the read

    def _load_again(self, homes: set[int]) -> None:
        self._loading -= homes
        if not self._groups.is_stopped:
            self.reassign()

    def _say_failed(self, failure: Exception) -> None:
        if isinstance(failure, _MAY_PASS):
            self._said.log("groups in a partition cannot be read yet, and their members are asked to wait", failure)
        else:
            what = "groups in a partition could not be read, so their members must join again"
            logger.error("%s: %s", what, failure, exc_info=None if isinstance(failure, LogStoreError) else failure)

    def _restore_all(self, contents: Mapping[GroupKey, GroupValue], homes: Collection[int]) -> None:
        """Takes over the groups in records that belong to ``homes``."""
        for key, value in contents.items():
            if (
                isinstance(key, GroupMetadataKey)
                and isinstance(value, GroupMetadataValue)
                and self._groups.homes.home_of(key.group) in homes
            ):
                self._restore(key.group, value)
        self.consumers.restore(contents, homes)

    def _restore(self, name: str, value: GroupMetadataValue) -> None:
        group = self._groups.by_name[name] = Group.restored(name, value, self._groups.clock)
        if len(group.members) > self._groups.config.group_max_size:
            self.membership.rebalancing.prepare(group, "the group has more members than group.max.size")
        for member in group.members.values():
            self.membership.rebalancing.expect(group, member)
        self._hold(group)

    def _hold(self, group: Group) -> None:
        """Marks a group that was read as in use, as soon as no other node or command holds it."""
        has_members = group.members and self._groups.by_name.get(group.name) is group
        if has_members and not self._groups.hold(group):
            run_later(self._groups.home, HOLD_AGAIN_MS, partial(self._hold, group))

    def _expire_later(self) -> None:
        def expire() -> None:
            self.offsets.expire()
            self._expire_later()

        run_later(self._groups.home, self._groups.config.offsets_retention_check_interval_ms, expire)

    def stop(self) -> None:
        """Answers waiting and later requests with COORDINATOR_NOT_AVAILABLE."""
        self._groups.is_stopped = True
        for group in self._groups.by_name.values():
            self.membership.rebalancing.give_up(group)

    def group(self, name: str) -> Group:
        """Returns a group that has, or had, members. Raises KeyError."""
        return self._groups.by_name[name]

    # Asking about groups

    def list(
        self,
        done: Callable[[ErrorCode, Sequence[ListedGroup]], None],
        *,
        states: Collection[str] = (),
        types: Collection[str] = (),
    ) -> None:
        """Calls ``done`` with all groups, sorted by name; with ``states`` or ``types``, only those; case is ignored.

        While groups are being loaded, the error is COORDINATOR_LOAD_IN_PROGRESS, and there are no groups. Those of a
        partition that could not be read twice in a row are left out.
        """
        error = self._groups.check_all()
        wanted, of_types = {each.lower() for each in states}, {each.lower() for each in types}
        if error or (types and of_types.isdisjoint((CLASSIC, CONSUMER))):
            done(error, ())
            return

        def listed(contents: Mapping[GroupKey, GroupValue]) -> None:
            has = self._groups.homes.has
            found = {key.group: ListedGroup(key.group, "", State.EMPTY.value) for key in contents if has(key.group)}
            for name, group in list(self._groups.by_name.items()):
                if failures or self._groups.find(name, contents) is not None:
                    found[name] = ListedGroup(name, group.protocol_type or "", group.state.value)
            for name, newer in list(self._groups.consumers.items()):
                if failures or self._groups.find_consumers(name, contents) is not None:
                    found[name] = ListedGroup(name, CONSUMER, newer.state.value, CONSUMER)
            shown = (each for _, each in sorted(found.items()) if not types or each.type in of_types)
            done(ErrorCode.none, [each for each in shown if not wanted or each.state.lower() in wanted])

        failures: ReadFailures = {}
        own = self._groups.homes.own()
        self._groups.store.ask(
            lambda store: store.contents(failures, partitions=own),
            listed,
            lambda failure: done(stored_offset_code(failure), ()),
        )

    def describe(self, name: str, done: Callable[[DescribedGroup], None]) -> None:
        """Calls ``done`` with a group and its members; metadata and assignments only while it is stable."""
        error = self._groups.check(name, may_be_empty=True)
        if error:
            done(DescribedGroup(error))
            return
        group = self._groups.by_name.get(name)
        if group is not None and group.state is not State.EMPTY:
            done(_described(group))
            return
        if name in self._groups.consumers:  # another request describes these
            done(DescribedGroup(ErrorCode.none, State.DEAD.value))
            return

        def looked_up(records: Collection[GroupKey]) -> None:
            group = self._groups.find(name, records)
            state = State.EMPTY if records else State.DEAD
            done(DescribedGroup(ErrorCode.none, state.value) if group is None else _described(group))

        self._groups.store.look(
            lambda store: store.records(name),
            looked_up,
            lambda failure: done(DescribedGroup(stored_offset_code(failure))),
        )

    # Deleting groups

    def delete(self, name: str, done: Callable[[ErrorCode], None]) -> None:
        """Deletes an empty group with its offsets. A group with the progress of one of Spark's sinks is refused."""
        error = self._groups.check(name, may_be_empty=True)
        if error:
            done(error)
            return
        self._groups.store.look(
            lambda store: (store.records(name), store.undecided(name)),
            lambda found: self._delete(name, *found, done),
            lambda failure: done(stored_offset_code(failure)),
        )

    def _delete(
        self,
        name: str,
        records: Mapping[GroupKey, GroupValue],
        undecided: Collection[TopicPartition],
        done: Callable[[ErrorCode], None],
    ) -> None:
        newer = self._groups.find_consumers(name, records)
        if newer is not None and newer.members:
            done(ErrorCode.non_empty_group)
            return
        group = self._groups.find(name, records)
        if (group is None and not records and not undecided) or (group is not None and group.state is State.DEAD):
            done(ErrorCode.group_id_not_found)
            return
        keys = {*records, *(OffsetCommitKey(name, *each) for each in undecided)}
        if (group is not None and group.state is not State.EMPTY) or any(map(is_of_sink, keys)):
            done(ErrorCode.non_empty_group)
            return
        if newer is not None:
            self.consumers.forget(newer)
        if group is None:  # so that nobody joins in the meantime
            group = self._groups.by_name[name] = Group(name, self._groups.clock)
        group.enter(State.DEAD)
        changes = tombstones_of(records) + deletions_of(name, records, undecided)
        self._groups.write_offsets(group, changes, partial(self._deleted, group, done))

    def _deleted(self, group: Group, done: Callable[[ErrorCode], None], failure: Exception | None) -> None:
        is_here = self._groups.by_name.get(group.name) is group  # otherwise its partition has moved to another node
        if failure is not None:
            if is_here:
                group.enter(State.EMPTY)
                self._groups.forget_unused(group)
            done(stored_offset_code(failure))
            return
        if is_here:
            self._groups.forget(group)
        logger.info("group %r: deleted", group.name)
        done(ErrorCode.none)


def _described(group: Group) -> DescribedGroup:
    if group.state is State.DEAD:
        return DescribedGroup(ErrorCode.none, State.DEAD.value)
    is_stable = group.state is State.STABLE
    protocol = (group.protocol or "") if is_stable else ""
    members = [
        DescribedMember(
            each.id,
            each.instance_id,
            each.client_id,
            each.client_host,
            each.metadata(protocol) if is_stable else b"",
            each.assignment if is_stable else b"",
        )
        for each in group.members.values()
    ]
    return DescribedGroup(ErrorCode.none, group.state.value, group.protocol_type or "", protocol, members)
