"""Random requests of users with few rights: the gateway answers as Kafka 3.9.1, or 4.3.1, with the StandardAuthorizer.

A case sets up topics, and asks some 25 questions, each of a random user and in a random version. Its ACLs grow with
them, so that what is answered depends more and more on who asks. Even cases are beside 3.9.1, odd ones beside 4.3.1,
which has the groups of Kafka 4.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.support.kafka.kafka_jvm import KAFKA_4, KAFKA_VERSION
from tests.torture.gateway.beside_kafka.questions import ALL, NEWER, USERS, Names, Question
from tests.torture.gateway.beside_kafka.sides import Pair, differences, until
from tests.torture.suite import Case, Run, Suite, quiet

QUESTIONS = 25


def run(run: Run) -> None:
    pairs: dict[str, Pair] = {}
    try:
        with quiet():
            for case in run.cases():
                release = (KAFKA_VERSION, KAFKA_4)[case.number % 2]
                if release not in pairs:
                    pairs[release] = _pair(run.directory / release, release)
                _ask(run, case, pairs[release])
    finally:
        for each in pairs.values():
            each.close()


def _pair(home: Path, release: str) -> Pair:
    home.mkdir()
    return Pair(home, release)


def _ask(run: Run, case: Case, pair: Pair) -> None:
    names = Names(f"w{run.seed}-{case.number}-")
    asks = (*ALL, *NEWER) if pair.release == KAFKA_4 else ALL
    with run.watching(case):
        pair.begin(names)
        for _ in range(QUESTIONS):
            question, user = case.chance.choice(asks)(case.chance, names), case.chance.choice(USERS)
            version = case.chance.choice(pair.keys[question.key])
            _compare(pair, user, question, version, names)
            run.passed()


def _compare(pair: Pair, user: str, question: Question, version: int, names: Names) -> None:
    what = f"{pair.release}: {user} asks {question.key.name} {version} {question.fields}"
    ask = partial(pair.answers, user, question, version, names)
    ours, theirs = ask() if question.changes else until(ask, lambda found: bool(found[0] == found[1]))
    assert ours == theirs, f"{what}\n{differences(ours, theirs)}"
    if question.changes:
        pair.settle(what)


SUITE = Suite("pairs of answers", 2_000, run)
