"""The settings that a broker of Kafka 3.9.1 shows: names, types and defaults. A test compares them with a broker."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

TYPES = {  # ``DescribeConfigsResponse.ConfigType``
    "bool": 1,
    "string": 2,
    "int": 3,
    "short": 4,
    "long": 5,
    "double": 6,
    "list": 7,
    "class": 8,
    "password": 9,
}
_EMPTY = '""'


class KafkaSetting(NamedTuple):
    """A setting of a broker."""

    type: int
    default: str | None  # None: it has none

    @property
    def is_sensitive(self) -> bool:
        """Whether the value is hidden from all clients."""
        return self.type == TYPES["password"]


@cache
def kafka_settings() -> Mapping[str, KafkaSetting]:
    """Returns all settings by their names."""
    found = {}
    for line in _TABLE.strip().splitlines():
        name, type_, *default = line.split()
        given = default[0] if default else None
        found[name] = KafkaSetting(TYPES[type_], "" if given == _EMPTY else given)
    return found


def is_kafkas(name: str) -> bool:
    """Whether a broker has a setting of this name."""
    return name in kafka_settings()


# Those that clients may change while a broker runs (``DynamicBrokerConfig.AllDynamicConfigs``), for all or for one.
DYNAMIC = frozenset(
    [
        "advertised.listeners",
        "background.threads",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "listener.security.protocol.map",
        "listeners",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.max.compaction.lag.ms",
        "log.cleaner.min.cleanable.ratio",
        "log.cleaner.min.compaction.lag.ms",
        "log.cleaner.threads",
        "log.cleanup.policy",
        "log.flush.interval.messages",
        "log.flush.interval.ms",
        "log.index.interval.bytes",
        "log.index.size.max.bytes",
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "log.message.downconversion.enable",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.difference.max.ms",
        "log.message.timestamp.type",
        "log.preallocate",
        "log.retention.bytes",
        "log.retention.ms",
        "log.roll.jitter.ms",
        "log.roll.ms",
        "log.segment.bytes",
        "log.segment.delete.delay.ms",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "message.max.bytes",
        "metric.reporters",
        "min.insync.replicas",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "principal.builder.class",
        "producer.id.expiration.ms",
        "remote.fetch.max.wait.ms",
        "remote.log.index.file.cache.total.size.bytes",
        "remote.log.manager.copy.max.bytes.per.second",
        "remote.log.manager.fetch.max.bytes.per.second",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.mechanism.inter.broker.protocol",
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class",
        "ssl.key.password",
        "ssl.keymanager.algorithm",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
        "transaction.partition.verification.enable",
        "unclean.leader.election.enable",
    ]
)

_TABLE = """
advertised.listeners string
alter.config.policy.class.name class
alter.log.dirs.replication.quota.window.num int 11
alter.log.dirs.replication.quota.window.size.seconds int 1
authorizer.class.name string ""
auto.create.topics.enable bool true
auto.include.jmx.reporter bool true
auto.leader.rebalance.enable bool true
background.threads int 10
broker.heartbeat.interval.ms int 2000
broker.id int -1
broker.id.generation.enable bool true
broker.rack string
broker.session.timeout.ms int 9000
client.quota.callback.class class
compression.gzip.level int -1
compression.lz4.level int 9
compression.type string producer
compression.zstd.level int 3
connection.failed.authentication.delay.ms int 100
connections.max.idle.ms long 600000
connections.max.reauth.ms long 0
control.plane.listener.name string
controlled.shutdown.enable bool true
controlled.shutdown.max.retries int 3
controlled.shutdown.retry.backoff.ms long 5000
controller.listener.names string
controller.quorum.append.linger.ms int 25
controller.quorum.bootstrap.servers list ""
controller.quorum.election.backoff.max.ms int 1000
controller.quorum.election.timeout.ms int 1000
controller.quorum.fetch.timeout.ms int 2000
controller.quorum.request.timeout.ms int 2000
controller.quorum.retry.backoff.ms int 20
controller.quorum.voters list ""
controller.quota.window.num int 11
controller.quota.window.size.seconds int 1
controller.socket.timeout.ms int 30000
create.topic.policy.class.name class
default.replication.factor int 1
delegation.token.expiry.check.interval.ms long 3600000
delegation.token.expiry.time.ms long 86400000
delegation.token.master.key password
delegation.token.max.lifetime.ms long 604800000
delegation.token.secret.key password
delete.records.purgatory.purge.interval.requests int 1
delete.topic.enable bool true
early.start.listeners string
eligible.leader.replicas.enable bool false
fetch.max.bytes int 57671680
fetch.purgatory.purge.interval.requests int 1000
group.consumer.assignors list \
org.apache.kafka.coordinator.group.assignor.UniformAssignor,\
org.apache.kafka.coordinator.group.assignor.RangeAssignor
group.consumer.heartbeat.interval.ms int 5000
group.consumer.max.heartbeat.interval.ms int 15000
group.consumer.max.session.timeout.ms int 60000
group.consumer.max.size int 2147483647
group.consumer.min.heartbeat.interval.ms int 5000
group.consumer.min.session.timeout.ms int 45000
group.consumer.session.timeout.ms int 45000
group.coordinator.append.linger.ms int 10
group.coordinator.rebalance.protocols list classic
group.coordinator.threads int 1
group.initial.rebalance.delay.ms int 3000
group.max.session.timeout.ms int 1800000
group.max.size int 2147483647
group.min.session.timeout.ms int 6000
group.share.delivery.count.limit int 5
group.share.heartbeat.interval.ms int 5000
group.share.max.groups short 10
group.share.max.heartbeat.interval.ms int 15000
group.share.max.record.lock.duration.ms int 60000
group.share.max.session.timeout.ms int 60000
group.share.max.size short 200
group.share.min.heartbeat.interval.ms int 5000
group.share.min.record.lock.duration.ms int 15000
group.share.min.session.timeout.ms int 45000
group.share.partition.max.record.locks int 200
group.share.record.lock.duration.ms int 30000
group.share.session.timeout.ms int 45000
initial.broker.registration.timeout.ms int 60000
inter.broker.listener.name string
inter.broker.protocol.version string 3.9-IV0
kafka.metrics.polling.interval.secs int 10
kafka.metrics.reporters list ""
leader.imbalance.check.interval.seconds long 300
leader.imbalance.per.broker.percentage int 10
listener.security.protocol.map string SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
listeners string PLAINTEXT://:9092
log.cleaner.backoff.ms long 15000
log.cleaner.dedupe.buffer.size long 134217728
log.cleaner.delete.retention.ms long 86400000
log.cleaner.enable bool true
log.cleaner.io.buffer.load.factor double 0.9
log.cleaner.io.buffer.size int 524288
log.cleaner.io.max.bytes.per.second double 1.7976931348623157E308
log.cleaner.max.compaction.lag.ms long 9223372036854775807
log.cleaner.min.cleanable.ratio double 0.5
log.cleaner.min.compaction.lag.ms long 0
log.cleaner.threads int 1
log.cleanup.policy list delete
log.dir string /tmp/kafka-logs
log.dir.failure.timeout.ms long 30000
log.dirs string
log.flush.interval.messages long 9223372036854775807
log.flush.interval.ms long
log.flush.offset.checkpoint.interval.ms int 60000
log.flush.scheduler.interval.ms long 9223372036854775807
log.flush.start.offset.checkpoint.interval.ms int 60000
log.index.interval.bytes int 4096
log.index.size.max.bytes int 10485760
log.local.retention.bytes long -2
log.local.retention.ms long -2
log.message.downconversion.enable bool true
log.message.format.version string 3.0-IV1
log.message.timestamp.after.max.ms long 9223372036854775807
log.message.timestamp.before.max.ms long 9223372036854775807
log.message.timestamp.difference.max.ms long 9223372036854775807
log.message.timestamp.type string CreateTime
log.preallocate bool false
log.retention.bytes long -1
log.retention.check.interval.ms long 300000
log.retention.hours int 168
log.retention.minutes int
log.retention.ms long
log.roll.hours int 168
log.roll.jitter.hours int 0
log.roll.jitter.ms long
log.roll.ms long
log.segment.bytes int 1073741824
log.segment.delete.delay.ms long 60000
max.connection.creation.rate int 2147483647
max.connections int 2147483647
max.connections.per.ip int 2147483647
max.connections.per.ip.overrides string ""
max.incremental.fetch.session.cache.slots int 1000
max.request.partition.size.limit int 2000
message.max.bytes int 1048588
metadata.log.dir string
metadata.log.max.record.bytes.between.snapshots long 20971520
metadata.log.max.snapshot.interval.ms long 3600000
metadata.log.segment.bytes int 1073741824
metadata.log.segment.ms long 604800000
metadata.max.idle.interval.ms int 500
metadata.max.retention.bytes long 104857600
metadata.max.retention.ms long 604800000
metric.reporters list ""
metrics.num.samples int 2
metrics.recording.level string INFO
metrics.sample.window.ms long 30000
min.insync.replicas int 1
node.id int -1
num.io.threads int 8
num.network.threads int 3
num.partitions int 1
num.recovery.threads.per.data.dir int 1
num.replica.alter.log.dirs.threads int
num.replica.fetchers int 1
offset.metadata.max.bytes int 4096
offsets.commit.required.acks short -1
offsets.commit.timeout.ms int 5000
offsets.load.buffer.size int 5242880
offsets.retention.check.interval.ms long 600000
offsets.retention.minutes int 10080
offsets.topic.compression.codec int 0
offsets.topic.num.partitions int 50
offsets.topic.replication.factor short 3
offsets.topic.segment.bytes int 104857600
password.encoder.cipher.algorithm string AES/CBC/PKCS5Padding
password.encoder.iterations int 4096
password.encoder.key.length int 128
password.encoder.keyfactory.algorithm string
password.encoder.old.secret password
password.encoder.secret password
principal.builder.class class org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
process.roles list ""
producer.id.expiration.ms int 86400000
producer.purgatory.purge.interval.requests int 1000
queued.max.request.bytes long -1
queued.max.requests int 500
quota.window.num int 11
quota.window.size.seconds int 1
remote.fetch.max.wait.ms int 500
remote.log.index.file.cache.total.size.bytes long 1073741824
remote.log.manager.copier.thread.pool.size int -1
remote.log.manager.copy.max.bytes.per.second long 9223372036854775807
remote.log.manager.copy.quota.window.num int 11
remote.log.manager.copy.quota.window.size.seconds int 1
remote.log.manager.expiration.thread.pool.size int -1
remote.log.manager.fetch.max.bytes.per.second long 9223372036854775807
remote.log.manager.fetch.quota.window.num int 11
remote.log.manager.fetch.quota.window.size.seconds int 1
remote.log.manager.task.interval.ms long 30000
remote.log.manager.thread.pool.size int 10
remote.log.metadata.custom.metadata.max.bytes int 128
remote.log.metadata.manager.class.name string \
org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
remote.log.metadata.manager.class.path string
remote.log.metadata.manager.impl.prefix string rlmm.config.
remote.log.metadata.manager.listener.name string
remote.log.reader.max.pending.tasks int 100
remote.log.reader.threads int 10
remote.log.storage.manager.class.name string
remote.log.storage.manager.class.path string
remote.log.storage.manager.impl.prefix string rsm.config.
remote.log.storage.system.enable bool false
replica.fetch.backoff.ms int 1000
replica.fetch.max.bytes int 1048576
replica.fetch.min.bytes int 1
replica.fetch.response.max.bytes int 10485760
replica.fetch.wait.max.ms int 500
replica.high.watermark.checkpoint.interval.ms long 5000
replica.lag.time.max.ms long 30000
replica.selector.class string
replica.socket.receive.buffer.bytes int 65536
replica.socket.timeout.ms int 30000
replication.quota.window.num int 11
replication.quota.window.size.seconds int 1
request.timeout.ms int 30000
reserved.broker.max.id int 1000
sasl.client.callback.handler.class class
sasl.enabled.mechanisms list GSSAPI
sasl.jaas.config password
sasl.kerberos.kinit.cmd string /usr/bin/kinit
sasl.kerberos.min.time.before.relogin long 60000
sasl.kerberos.principal.to.local.rules list DEFAULT
sasl.kerberos.service.name string
sasl.kerberos.ticket.renew.jitter double 0.05
sasl.kerberos.ticket.renew.window.factor double 0.8
sasl.login.callback.handler.class class
sasl.login.class class
sasl.login.connect.timeout.ms int
sasl.login.read.timeout.ms int
sasl.login.refresh.buffer.seconds short 300
sasl.login.refresh.min.period.seconds short 60
sasl.login.refresh.window.factor double 0.8
sasl.login.refresh.window.jitter double 0.05
sasl.login.retry.backoff.max.ms long 10000
sasl.login.retry.backoff.ms long 100
sasl.mechanism.controller.protocol string GSSAPI
sasl.mechanism.inter.broker.protocol string GSSAPI
sasl.oauthbearer.clock.skew.seconds int 30
sasl.oauthbearer.expected.audience list
sasl.oauthbearer.expected.issuer string
sasl.oauthbearer.jwks.endpoint.refresh.ms long 3600000
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long 10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long 100
sasl.oauthbearer.jwks.endpoint.url string
sasl.oauthbearer.scope.claim.name string scope
sasl.oauthbearer.sub.claim.name string sub
sasl.oauthbearer.token.endpoint.url string
sasl.server.callback.handler.class class
sasl.server.max.receive.size int 524288
security.inter.broker.protocol string PLAINTEXT
security.providers string
socket.connection.setup.timeout.max.ms long 30000
socket.connection.setup.timeout.ms long 10000
socket.listen.backlog.size int 50
socket.receive.buffer.bytes int 102400
socket.request.max.bytes int 104857600
socket.send.buffer.bytes int 102400
ssl.allow.dn.changes bool false
ssl.allow.san.changes bool false
ssl.cipher.suites list ""
ssl.client.auth string none
ssl.enabled.protocols list TLSv1.2,TLSv1.3
ssl.endpoint.identification.algorithm string https
ssl.engine.factory.class class
ssl.key.password password
ssl.keymanager.algorithm string SunX509
ssl.keystore.certificate.chain password
ssl.keystore.key password
ssl.keystore.location string
ssl.keystore.password password
ssl.keystore.type string JKS
ssl.principal.mapping.rules string DEFAULT
ssl.protocol string TLSv1.3
ssl.provider string
ssl.secure.random.implementation string
ssl.trustmanager.algorithm string PKIX
ssl.truststore.certificates password
ssl.truststore.location string
ssl.truststore.password password
ssl.truststore.type string JKS
telemetry.max.bytes int 1048576
transaction.abort.timed.out.transaction.cleanup.interval.ms int 10000
transaction.max.timeout.ms int 900000
transaction.partition.verification.enable bool true
transaction.remove.expired.transaction.cleanup.interval.ms int 3600000
transaction.state.log.load.buffer.size int 5242880
transaction.state.log.min.isr int 2
transaction.state.log.num.partitions int 50
transaction.state.log.replication.factor short 3
transaction.state.log.segment.bytes int 104857600
transactional.id.expiration.ms int 604800000
unclean.leader.election.enable bool false
zookeeper.clientCnxnSocket string
zookeeper.connect string
zookeeper.connection.timeout.ms int
zookeeper.max.in.flight.requests int 10
zookeeper.metadata.migration.enable bool false
zookeeper.session.timeout.ms int 18000
zookeeper.set.acl bool false
zookeeper.ssl.cipher.suites list
zookeeper.ssl.client.enable bool false
zookeeper.ssl.crl.enable bool false
zookeeper.ssl.enabled.protocols list
zookeeper.ssl.endpoint.identification.algorithm string HTTPS
zookeeper.ssl.keystore.location string
zookeeper.ssl.keystore.password password
zookeeper.ssl.keystore.type string
zookeeper.ssl.ocsp.enable bool false
zookeeper.ssl.protocol string TLSv1.2
zookeeper.ssl.truststore.location string
zookeeper.ssl.truststore.password password
zookeeper.ssl.truststore.type string
"""
