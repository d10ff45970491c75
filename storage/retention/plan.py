"""Decides the fate of each segment from facts and policies. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ..config import CHECK_INTERVAL_MS, LogConfig
from ..errors import InvalidConfigError
from ..text import counted
from .policies import LogStartRetention, RetentionPolicy, RetentionVerdict, Situation, kafka_policies, local_policies
from .survey import LogFacts, SegmentFacts


@dataclass(frozen=True)
class RetentionOptions:
    """What a retention run takes into account besides the topic's config."""

    # Lowest committed offset in this partition by group, 0 if it has none: segments that it has not read are kept.
    keep_for_groups: Mapping[str, int] = field(default_factory=dict)
    keep_for_tables: Mapping[str, int] = field(default_factory=dict)  # the next offset that each table lacks
    policies: Sequence[RetentionPolicy] | None = None  # instead of Kafka's
    tiered_below: int | None = None  # a tier has all records below this offset; None: the topic has no tier
    check_interval_ms: int = CHECK_INTERVAL_MS  # how often retention runs: used in reports
    warnings: Sequence[str] = ()  # from the caller, for the report


@dataclass(frozen=True)
class SegmentFate:
    """The decision whether a segment is deleted, and why."""

    segment: SegmentFacts
    goes: bool
    rule: str  # the policy, the transaction, the group or the table that decided
    reason: str
    until_ms: int | None = None  # if kept: the last moment at which time keeps it; None if time does not decide
    removed_by_ms: int | None = None  # its bytes are off the disk by then at the latest, if retention runs on time

    @property
    def why(self) -> str:
        """The rule with its reason; only the reason, if the segment is kept because no rule deletes it."""
        is_unlimited = not self.goes and self.rule == LogStartRetention.name
        return self.reason if is_unlimited else f"{self.rule}: {self.reason}"

    @property
    def lifetime_ms(self) -> int | None:
        """The greatest age, in ms, that the segment's first record can reach on disk; None if unknown."""
        if self.removed_by_ms is None or self.segment.first_timestamp_ms < 0:
            return None
        return self.removed_by_ms - self.segment.first_timestamp_ms


@dataclass(frozen=True)
class RetentionPlan:
    """The segments of a log to delete and to keep, as of ``now_ms``."""

    facts: LogFacts
    now_ms: int
    fates: tuple[SegmentFate, ...]  # of every segment, ascending; those to delete come first
    file_delete_delay_ms: int
    check_interval_ms: int
    warnings: tuple[str, ...] = ()
    is_local: bool = False  # a tier has the deleted segments, so the log start stays

    @property
    def removed(self) -> tuple[SegmentFate, ...]:
        return tuple(fate for fate in self.fates if fate.goes)

    @property
    def kept(self) -> tuple[SegmentFate, ...]:
        return tuple(fate for fate in self.fates if not fate.goes)

    @property
    def log_start_offset(self) -> int:
        """The log start offset once the plan is carried out."""
        if self.is_local:
            return self.facts.log_start_offset
        return max([self.facts.log_start_offset, *(fate.segment.next_offset for fate in self.removed)])

    @property
    def rolls(self) -> bool:
        """Whether the active segment is deleted too, so that a new one must be created first."""
        return any(fate.segment.is_active for fate in self.removed)


class _Hold(NamedTuple):
    """A reason to keep every segment with records at or above ``offset``, whatever the policies decide."""

    offset: int
    name: str
    reason: str


@dataclass(frozen=True)
class _Planner:
    facts: LogFacts
    config: LogConfig
    now_ms: int
    policies: Sequence[RetentionPolicy]
    delays_ms: int  # longest time from when a segment may be deleted until its bytes are off the disk

    def removed(self, holds: Sequence[_Hold]) -> list[SegmentFate]:
        """The segments to delete. Each policy passes over the remaining ones, from the oldest to the first it keeps."""
        undecided = list(reversed(self.facts.segments))
        deleted: list[SegmentFate] = []
        situation = self._at_first()
        for policy in self.policies:
            while undecided and not _held(undecided[-1], holds) and not _is_empty_active(undecided[-1]):
                verdict = _judged(policy, undecided[-1], situation)
                if not verdict.goes:
                    break
                segment = undecided.pop()
                situation = situation.without(segment)
                deleted.append(SegmentFate(segment, True, policy.name, verdict.reason))
        return deleted

    def kept(self, deleted: Sequence[SegmentFate], holds: Sequence[_Hold]) -> Iterator[SegmentFate]:
        """Yields the fates of the other segments; none is deleted before an older one."""
        situation = self._at_first()
        for fate in deleted:
            situation = situation.without(fate.segment)
        before: SegmentFate | None = None
        for segment in self.facts.segments[len(deleted) :]:
            fate = self._kept_by_itself(segment, situation, holds)
            before = fate if before is None else _after(before, fate)
            yield before
            situation = situation.after(segment)

    def _at_first(self) -> Situation:
        facts = self.facts
        return Situation(self.now_ms, facts.log_start_offset, facts.size, len(facts.segments), self.config)

    def _kept_by_itself(self, segment: SegmentFacts, situation: Situation, holds: Sequence[_Hold]) -> SegmentFate:
        """Returns the fate of the segment if it were the oldest."""
        if _is_empty_active(segment):
            return SegmentFate(segment, False, "active segment", "it is empty, and the next record is written to it")
        verdicts = [(policy.name, _judged(policy, segment, situation)) for policy in self.policies]
        is_due = any(verdict.goes for _, verdict in verdicts)
        hold = _held(segment, holds)
        if hold is not None and is_due:
            return SegmentFate(segment, False, hold.name, hold.reason)
        fate = self._due(segment, verdicts) if is_due else self._kept_by_policies(segment, verdicts)
        if hold is None:
            return fate
        return replace(fate, reason=f"{fate.reason}; moreover, {hold.reason}", removed_by_ms=None)

    def _due(self, segment: SegmentFacts, verdicts: Sequence[tuple[str, RetentionVerdict]]) -> SegmentFate:
        """Returns the fate of a segment that a policy releases but that must wait for an older one."""
        name, verdict = next((name, verdict) for name, verdict in verdicts if verdict.goes)
        return SegmentFate(segment, False, name, verdict.reason, self.now_ms, self.now_ms + self.delays_ms)

    def _kept_by_policies(self, segment: SegmentFacts, verdicts: list[tuple[str, RetentionVerdict]]) -> SegmentFate:
        """Returns the fate of a segment that all policies keep: the rule whose time ends first, and all reasons."""
        verdicts.sort(key=lambda each: (each[1].until_ms is None, each[1].until_ms or 0, not each[1].reason))
        name, verdict = verdicts[0]
        reason = "; ".join(verdict.reason for _, verdict in verdicts if verdict.reason)
        if verdict.until_ms is None:
            return SegmentFate(segment, False, name, reason)
        if segment.is_active:
            reason += "; it is still written to, and every newer record keeps it longer"
        return SegmentFate(segment, False, name, reason, verdict.until_ms, verdict.until_ms + self.delays_ms)


def _judged(policy: RetentionPolicy, segment: SegmentFacts, situation: Situation) -> RetentionVerdict:
    """Returns a policy's verdict. Raises InvalidConfigError if the policy, which may be a user's code, fails."""
    try:
        verdict = policy.judge(segment, situation)
    except Exception as error:
        raise _faulty(policy, segment, f"{type(error).__name__}: {error}") from error
    if not isinstance(verdict, RetentionVerdict):
        raise _faulty(policy, segment, f"judge() returned {verdict!r}, not a RetentionVerdict")
    return verdict


def _faulty(policy: RetentionPolicy, segment: SegmentFacts, what: str) -> InvalidConfigError:
    return InvalidConfigError(
        f"retention policy {policy.name!r} failed at segment {segment.base_offset}: {what}; nothing was deleted"
    )


def _after(before: SegmentFate, fate: SegmentFate) -> SegmentFate:
    """Returns ``fate``, changed if the older neighbour, whose fate is ``before``, keeps the segment for longer."""
    if fate.until_ms is None or (before.until_ms is not None and before.until_ms <= fate.until_ms):
        return fate if before.removed_by_ms is not None else replace(fate, removed_by_ms=None)
    reason = f"the segment before it, {before.segment.base_offset}, is kept; by itself: {fate.reason}"
    return SegmentFate(fate.segment, False, before.rule, reason, before.until_ms, before.removed_by_ms)


def _held(segment: SegmentFacts, holds: Sequence[_Hold]) -> _Hold | None:
    """Returns the hold with the lowest offset that keeps the segment, whatever policies decide; else None."""
    return min((hold for hold in holds if segment.next_offset > hold.offset), default=None)


def _is_empty_active(segment: SegmentFacts) -> bool:
    return segment.is_active and not segment.size


def plan_retention(
    facts: LogFacts, config: LogConfig, now_ms: int, options: RetentionOptions | None = None
) -> RetentionPlan:
    """Returns which segments to delete and which to keep as of ``now_ms``, and why. Changes nothing."""
    options = options or RetentionOptions()
    is_tiered = options.tiered_below is not None
    policies = options.policies or (local_policies(config) if is_tiered else kafka_policies(config))
    delays_ms = options.check_interval_ms + config.file_delete_delay_ms
    planner = _Planner(facts, config, now_ms, policies, delays_ms)
    transaction = _transaction_hold(facts)
    readers = [_group_hold(group, offset, facts) for group, offset in sorted(options.keep_for_groups.items())]
    readers += [_table_hold(table, offset, facts) for table, offset in sorted(options.keep_for_tables.items())]
    readers = [] if is_tiered else readers  # readers find the deleted records in the tier
    holds = [transaction, *_tier_holds(options, facts)]
    deleted = planner.removed([*holds, *readers])
    fates = (*deleted, *planner.kept(deleted, [*holds, *readers]))
    held_back = planner.removed(holds)[len(deleted) :] if readers else []
    warnings = (*options.warnings, *_warnings(facts, readers, held_back))
    delay_ms, interval_ms = config.file_delete_delay_ms, options.check_interval_ms
    return RetentionPlan(facts, now_ms, fates, delay_ms, interval_ms, warnings, is_local=is_tiered)


def _transaction_hold(facts: LogFacts) -> _Hold:
    offset = max(facts.last_stable_offset, facts.log_start_offset)
    return _Hold(offset, "open transaction", f"a transaction is open from offset {offset} on")


def _tier_holds(options: RetentionOptions, facts: LogFacts) -> list[_Hold]:
    """Returns the hold on records that are not in the tier yet, except below the log start."""
    if options.tiered_below is None:
        return []
    bound = max(options.tiered_below, facts.log_start_offset)
    return [_Hold(bound, "tier", f"the tier has only what is below offset {options.tiered_below}")]


def _group_hold(group: str, offset: int, facts: LogFacts) -> _Hold:
    """Returns the hold on records that a group has not read, except below the log start, where no one can read."""
    bound = max(offset, facts.log_start_offset)
    return _Hold(bound, f"group {group}", f"group {group!r} has read only up to offset {offset}")


def _table_hold(table: str, offset: int, facts: LogFacts) -> _Hold:
    """Returns the hold on records that were not exported to a table yet."""
    bound = max(offset, facts.log_start_offset)
    return _Hold(bound, f"table {table}", f"table {table} has only what is below offset {offset}")


def _warnings(facts: LogFacts, readers: Sequence[_Hold], held_back: Sequence[SegmentFate]) -> Iterator[str]:
    """Yields a warning about the amount that is kept only for the slowest groups or tables."""
    if not held_back:
        return
    slowest = min(reader.offset for reader in readers)
    who = " and ".join(reader.name for reader in readers if reader.offset == slowest)
    size = sum(fate.segment.size for fate in held_back)
    yield (
        f"{counted(len(held_back), 'segment')} with {size:,} of the {facts.size:,} bytes would be deleted if not kept "
        f"for {who}, {counted(facts.log_end_offset - slowest, 'offset')} behind the log end"
    )
