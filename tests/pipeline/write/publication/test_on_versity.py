"""The sink on a real server whose requests are counted, and the check of a store by the races that it was made for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from pyspark_commitlog.storage.bucket.stores.probe import check_store
from pyspark_commitlog.storage.bucket.stores.race import Contenders
from pyspark_commitlog.storage.bucket.stores.remote import open_store
from pyspark_commitlog.storage.verdicts import Verdict
from tests.pipeline.inline_bucket import BucketDriver
from tests.pipeline.inline_spark import TASKS
from tests.support.stores.proxies import Proxy
from tests.support.stores.versity import VersityGateway

pytestmark = [pytest.mark.slow, pytest.mark.only_all]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VersityGateway]:
    with VersityGateway(tmp_path_factory.mktemp("versity")) as server:
        yield server


def test_exactly_one_of_32_wins_each_race(server: VersityGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    server.reach(monkeypatch)
    findings = check_store(server.url, Contenders())
    assert {each.verdict for each in findings} == {Verdict.PASSED}, findings


def test_a_micro_batch_takes_four_requests_and_one_for_each_task(
    server: VersityGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy(server.port) as proxy:
        server.reach(monkeypatch, proxy.port)
        driver = BucketDriver(open_store(f"{server.url}/counted"))
        driver.write(0)
        for number in (1, 2):
            proxy.requests.clear()
            driver.write(number)
            asked = Counter(method for method, _ in proxy.requests)
            assert asked == {"GET": 3, "PUT": TASKS + 1}, proxy.requests
