"""The gateway's settings: a broker's keys of Kafka 3.9.1, with its defaults and bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from ..registry import kafka_nodes
from ..storage import (
    ANYTHING,
    BOOLEAN,
    BROKER_KEYS,
    GROUP_METADATA_TOPIC,
    INT,
    LIST,
    LONG,
    NODE_KEYS,
    STRING,
    TRANSACTION_STATE_TOPIC,
    Address,
    Between,
    InvalidConfigError,
    Key,
    OneOf,
    TierAddress,
    did_you_mean,
    is_loopback,
    keys_of,
    tier_address,
)
from .listeners import EVERYWHERE, Listener, check_ports, parse_address_limits, parse_listeners, parse_protocols

INT32_MAX = 2**31 - 1
CONSUMER_ASSIGNORS = ("uniform", "range")
SECRETS = ("ssl.key.password",)  # shown to nobody


def _key(name: str, kind: Any, default: Any, bounds: Any, doc: str) -> Any:
    return field(default=default, metadata={"key": Key(name, kind, default, bounds, doc)})


def _live(name: str) -> Any:
    """Returns a field for a setting that clients may change while the gateway runs."""
    key = NODE_KEYS[name]
    return field(default=key.default, metadata={"key": key})


def _secret(name: str, doc: str) -> Any:
    return field(default="", repr=False, metadata={"key": Key(name, STRING, "", ANYTHING, doc)})


# One setting: field and type; Kafka's name, type, default, bounds; meaning.
# fmt: off
@dataclass(frozen=True)
class GatewayConfig:
    """The settings of a gateway; creating one with a bad value raises InvalidConfigError."""

    node_id: int = _key("node.id", INT, 1, Between(0),
        "The id of this node: each gateway over a directory has its own.")
    listeners: str = _key("listeners", STRING, "PLAINTEXT://127.0.0.1:9092", ANYTHING,
        "Where the gateway listens, with PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, or with names of "
        "listener.security.protocol.map; separate several with commas. Port 0: any free port.")
    advertised_listeners: str = _key("advertised.listeners", STRING, "", ANYTHING,
        "The addresses that clients are told to connect to, by the names of listeners; a listener that is missing here "
        "is advertised at the address where it listens.")
    listener_security_protocol_map: str = _key("listener.security.protocol.map", STRING,
        ",".join(f"{each}:{each}" for each in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")), ANYTHING,
        "The protocol of each name of a listener.")
    zookeeper_connect: str = _key("zookeeper.connect", STRING, "", ANYTHING,
        "The ZooKeeper with the registry, such as h1:2181,h2:2181/chroot; empty: files in the log directory.")
    zookeeper_session_timeout_ms: int = _key("zookeeper.session.timeout.ms", INT, 18_000, Between(1),
        "ZooKeeper removes a node that it has not heard from for this long; with files, how long a write to the "
        "registry waits for others.")
    zookeeper_connection_timeout_ms: int = _key("zookeeper.connection.timeout.ms", INT, -1, ANYTHING,
        "How long the gateway waits for ZooKeeper when it starts; negative: zookeeper.session.timeout.ms.")
    inter_broker_protocol_version: str = _key("inter.broker.protocol.version", STRING, "3.9-IV0", ANYTHING,
        "The version of Kafka, 0.7 to 3.9, whose format the nodes in the registry have; below 3.0, topics' "
        "message.format.version is followed.")
    ssl_keystore_location: str = _key("ssl.keystore.location", STRING, "", ANYTHING,
        "A PEM file with the gateway's private key and its chain of certificates, for SSL and SASL_SSL.")
    ssl_key_password: str = _secret("ssl.key.password",
        "The password of the private key, if it has one.")
    ssl_truststore_location: str = _key("ssl.truststore.location", STRING, "", ANYTHING,
        "A PEM file with the authorities whose certificates clients may have.")
    ssl_client_auth: str = _key("ssl.client.auth", STRING, "none", OneOf(("none", "requested", "required")),
        "Whether clients must show a certificate (none, requested or required).")
    ssl_principal_mapping_rules: str = _key("ssl.principal.mapping.rules", STRING, "DEFAULT", ANYTHING,
        "How certificates name users: DEFAULT, the whole name, or rules like RULE:^CN=(.*?),.*$/$1/L.")
    ssl_enabled_protocols: frozenset[str] = _key("ssl.enabled.protocols", LIST, frozenset({"TLSv1.2", "TLSv1.3"}),
        OneOf(("TLSv1.2", "TLSv1.3")), "The versions of TLS that clients may use.")
    sasl_enabled_mechanisms: frozenset[str] = _key("sasl.enabled.mechanisms", LIST,
        frozenset({"SCRAM-SHA-256", "SCRAM-SHA-512"}),
        OneOf(("OAUTHBEARER", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
        "How clients may log in, for SASL_SSL and SASL_PLAINTEXT.")
    sasl_oauthbearer_jwks_endpoint_url: str = _key("sasl.oauthbearer.jwks.endpoint.url", STRING, "", ANYTHING,
        "For OAUTHBEARER: the keys that tokens are signed with, as a URL with https or file.")
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = _key("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, 3_600_000,
        Between(1), "How often the keys are read from the URL again; a key that nobody knows makes it at once.")
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = _key("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        LONG, 100, Between(1), "The pause after the keys could not be read, which doubles with each failure.")
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = _key(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, 10_000, Between(1), "The longest such pause.")
    sasl_oauthbearer_expected_audience: frozenset[str] = _key("sasl.oauthbearer.expected.audience", LIST, frozenset(),
        ANYTHING, "Of these, a token's audience must be one; empty: a token must have none.")
    sasl_oauthbearer_expected_issuer: str = _key("sasl.oauthbearer.expected.issuer", STRING, "", ANYTHING,
        "The issuer that a token must have; empty: any.")
    sasl_oauthbearer_sub_claim_name: str = _key("sasl.oauthbearer.sub.claim.name", STRING, "sub", ANYTHING,
        "The claim of a token that names the user.")
    sasl_oauthbearer_scope_claim_name: str = _key("sasl.oauthbearer.scope.claim.name", STRING, "scope", ANYTHING,
        "The claim of a token that has its scopes.")
    sasl_oauthbearer_clock_skew_seconds: int = _key("sasl.oauthbearer.clock.skew.seconds", INT, 30, Between(0),
        "By how much the clocks of the gateway and of the issuer may differ.")
    sasl_server_max_receive_size: int = _key("sasl.server.max.receive.size", INT, 524_288, ANYTHING,
        "The largest request of a client that has not logged in yet.")
    commitlog_login_timeout_ms: int = _key("commitlog.login.timeout.ms", INT, 30_000, Between(1),
        "How long a client may take for TLS's handshake and its login; then its connection is closed.")
    commitlog_login_max_connections: int = _key("commitlog.login.max.connections", INT, 1_000, Between(1),
        "Connections that may be without a login, or amid TLS's handshake; a further one closes the first of them.")
    commitlog_login_queued_max_request_bytes: int = _key("commitlog.login.queued.max.request.bytes", INT, 16 << 20,
        Between(1), "Bytes that requests before a login may have together; those up to 4 KB are not counted.")
    commitlog_login_queued_max_requests: int = _key("commitlog.login.queued.max.requests", INT, 500, Between(1),
        "Passwords that may wait to be checked; then the connection of one is closed, of the user with the most.")
    connection_failed_authentication_delay_ms: int = _key("connection.failed.authentication.delay.ms", INT, 100,
        Between(0), "How long the answer to a failed login is delayed.")
    connections_max_reauth_ms: int = _key("connections.max.reauth.ms", LONG, 0, Between(0),
        "How long a login is valid; then the client must log in again. 0: until its connection ends.")
    commitlog_users_file: str = _key("commitlog.users.file", STRING, "", ANYTHING,
        "The file of users that may log in; commitlog users writes it.")
    commitlog_rules_file: str = _key("commitlog.rules.file", STRING, "", ANYTHING,
        "The file with the rules for what each user may do; empty: everyone may do everything.")
    commitlog_acls_file: str = _key("commitlog.acls.file", STRING, "", ANYTHING,
        "The file that keeps the ACLs which clients create; empty: beside commitlog.rules.file, with .acls.json after "
        "its name.")
    allow_everyone_if_no_acl_found: bool = _key("allow.everyone.if.no.acl.found", BOOLEAN, False, ANYTHING,
        "With rules or ACLs: whether everyone may use a resource that none of them names.")
    commitlog_quotas_file: str = _key("commitlog.quotas.file", STRING, "", ANYTHING,
        "The file that keeps the quotas which clients set, of users, client ids and addresses; empty: none.")
    super_users: str = _key("super.users", STRING, "", ANYTHING,
        "Users that may do everything, such as User:admin;User:CN=root.")
    commitlog_internal_topics_writable: bool = _key("commitlog.internal.topics.writable", BOOLEAN, False, ANYTHING,
        "Without rules: whether clients named __admin_client may produce to internal topics, as with a broker.")
    commitlog_insecure_listeners: bool = _key("commitlog.insecure.listeners", BOOLEAN, False, ANYTHING,
        "Whether the gateway may listen for other machines without TLS or without logins.")
    num_network_threads: int = _key("num.network.threads", INT, 1, Between(1),
        "Threads that read requests and write answers, each with its share of the connections; more may help with TLS.")
    num_io_threads: int = _key("num.io.threads", INT, 16, Between(1),
        "Threads that sync what was appended; a partition always has the same one.")
    socket_request_max_bytes: int = _key("socket.request.max.bytes", INT, 100 << 20, Between(1),
        "The largest request; the connection of a larger one is closed.")
    socket_send_buffer_bytes: int = _key("socket.send.buffer.bytes", INT, 102_400, ANYTHING,
        "The send buffer of a connection; -1: the system's default.")
    socket_receive_buffer_bytes: int = _key("socket.receive.buffer.bytes", INT, -1, ANYTHING,
        "The receive buffer of a connection; -1: the system's default, which grows as the client sends.")
    socket_listen_backlog_size: int = _key("socket.listen.backlog.size", INT, 50, Between(1),
        "Connections that may wait to be accepted.")
    queued_max_requests: int = _key("queued.max.requests", INT, 500, Between(1),
        "Requests of one sort that may be in progress; at this number, no more of it are served until some are "
        "answered.")
    queued_max_request_bytes: int = _key("queued.max.request.bytes", LONG, 1 << 30, ANYTHING,
        "Bytes that requests above 64 KB may have together, counted as they arrive; then no more are read. Negative: "
        "no limit, as in Kafka.")
    commitlog_bucket_answers_max_bytes: int = _key("commitlog.bucket.answers.max.bytes", LONG, 256 << 20, Between(1),
        "Bytes of records from an object store, or a tier, in answers that clients have not taken yet; the less is "
        "free, the smaller are the next answers.")
    commitlog_queued_max_answer_bytes: int = _key("commitlog.queued.max.answer.bytes", LONG, 512 << 20, Between(1),
        "Bytes of all answers in memory that clients have not taken yet, those with records from an object store or a "
        "tier too; above it, the connections of the slowest clients are closed.")
    commitlog_request_min_bytes_per_second: int = _key("commitlog.request.min.bytes.per.second", INT, 16 << 10,
        Between(0), "The least rate at which a request must arrive; the connection of a slower one is closed.")
    commitlog_request_grace_ms: int = _key("commitlog.request.grace.ms", INT, 10_000, Between(1),
        "How long a request that is arriving may pause.")
    commitlog_request_max_entries: int = _key("commitlog.request.max.entries", INT, 200_000, Between(1),
        "Entries that the arrays of one request may have together, such as topics and partitions; the connection of a "
        "larger one is closed.")
    commitlog_answer_max_bytes: int = _key("commitlog.answer.max.bytes", INT, 100 << 20, Between(1),
        "The largest answer without records; what would exceed it gets POLICY_VIOLATION.")
    commitlog_produce_max_decompressed_bytes: int = _key("commitlog.produce.max.decompressed.bytes", LONG, 1 << 30,
        Between(1), "Bytes that the batches of one Produce request may decompress to; further ones are refused.")
    commitlog_rewritten_max_decompressed_bytes: int = _key("commitlog.rewritten.max.decompressed.bytes", INT, 32 << 20,
        Between(1 << 20), "Bytes that a batch may decompress to if it must be rewritten: for its topic, when it is "
        "produced, or for a client before 0.11 that reads it.")
    commitlog_produce_together_enable: bool = _key("commitlog.produce.together.enable", BOOLEAN, True, ANYTHING,
        "Whether Produce requests that have arrived together are served together; false: one by one.")
    connections_max_idle_ms: int = _key("connections.max.idle.ms", LONG, 600_000, ANYTHING,
        "A connection that was idle for this long is closed; negative: never.")
    max_connections: int = _live("max.connections")
    max_connections_per_ip: int = _live("max.connections.per.ip")
    max_connections_per_ip_overrides: str = _live("max.connections.per.ip.overrides")
    max_connection_creation_rate: int = _live("max.connection.creation.rate")
    auto_create_topics_enable: bool = _key("auto.create.topics.enable", BOOLEAN, True, ANYTHING,
        "Whether a topic is created when a client asks for its metadata.")
    delete_topic_enable: bool = _key("delete.topic.enable", BOOLEAN, True, ANYTHING,
        "Whether clients may delete topics.")
    num_partitions: int = _key("num.partitions", INT, 1, Between(1),
        "Partitions of a new topic, if its creator gives no number.")
    max_incremental_fetch_session_cache_slots: int = _key("max.incremental.fetch.session.cache.slots", INT, 1000,
        Between(0), "Fetch sessions that may be kept, of one consumer and node each; 0: none.")
    fetch_max_bytes: int = _key("fetch.max.bytes", INT, 55 << 20, Between(1024),
        "The largest answer to a fetch; a first batch that is larger is still sent.")
    log_retention_check_interval_ms: int = _key("log.retention.check.interval.ms", LONG, 300_000, Between(1),
        "How often old segments are deleted and compacted topics compacted, by a child process.")
    log_cleaner_enable: bool = _key("log.cleaner.enable", BOOLEAN, True, ANYTHING,
        "Whether compacted topics are compacted.")
    commitlog_maintenance_enable: bool = _key("commitlog.maintenance.enable", BOOLEAN, True, ANYTHING,
        "Whether the gateway deletes and compacts; false: jobs or other processes do.")
    commitlog_bucket_linger_ms: int = _key("commitlog.bucket.linger.ms", INT, 100, Between(0),
        "On an object store: how long a batch waits for others, of any producer, to be in one commit with it.")
    commitlog_bucket_poll_interval_ms: int = _key("commitlog.bucket.poll.interval.ms", INT, 250, Between(1),
        "On an object store: how often the gateway looks for what others committed, while a client waits for records.")
    commitlog_tier_url: str = _key("commitlog.tier.url", STRING, "", ANYTHING,
        "The directory or the URL of the tier from which offsets below the log directory's segments are served, of "
        "topics with remote.storage.enable; empty: none.")
    commitlog_tier_keys: frozenset[str] = _key("commitlog.tier.keys", LIST, frozenset(), ANYTHING,
        "Files with private keys, for a tier with encrypted segments.")
    remote_log_reader_threads: int = _key("remote.log.reader.threads", INT, 10, Between(1),
        "Threads that read from the tier; a partition has one of them at a time.")
    remote_log_reader_max_pending_tasks: int = _key("remote.log.reader.max.pending.tasks", INT, 100, Between(1),
        "Reads from the tier that may wait for a thread; further ones get KAFKA_STORAGE_ERROR.")
    remote_fetch_max_wait_ms: int = _key("remote.fetch.max.wait.ms", INT, 500, Between(1),
        "How long a fetch waits for the tier; what is not read by then gets KAFKA_STORAGE_ERROR, and the read goes on "
        "for the next fetch.")
    group_min_session_timeout_ms: int = _key("group.min.session.timeout.ms", INT, 6_000, ANYTHING,
        "The shortest session timeout that a member of a group may ask for.")
    group_max_session_timeout_ms: int = _key("group.max.session.timeout.ms", INT, 1_800_000, ANYTHING,
        "The longest session timeout that a member of a group may ask for.")
    group_initial_rebalance_delay_ms: int = _key("group.initial.rebalance.delay.ms", INT, 3_000, ANYTHING,
        "How long the first members of an empty group wait for others to join; the time starts again when one joins.")
    group_max_size: int = _key("group.max.size", INT, INT32_MAX, Between(1),
        "Members that a group may have.")
    group_coordinator_rebalance_protocols: frozenset[str] = _key("group.coordinator.rebalance.protocols", LIST,
        frozenset({"classic", "consumer"}), OneOf(("classic", "consumer")),
        "The protocols of groups that clients may use: classic, and consumer (Kafka 4's, KIP-848).")
    group_consumer_session_timeout_ms: int = _key("group.consumer.session.timeout.ms", INT, 45_000, Between(1),
        "Protocol consumer: a member that sends nothing for this long is removed.")
    group_consumer_heartbeat_interval_ms: int = _key("group.consumer.heartbeat.interval.ms", INT, 5_000, Between(1),
        "Protocol consumer: how often members send heartbeats.")
    group_consumer_min_session_timeout_ms: int = _key("group.consumer.min.session.timeout.ms", INT, 45_000, Between(1),
        "Protocol consumer: the shortest session timeout that a group may be given of its own.")
    group_consumer_max_session_timeout_ms: int = _key("group.consumer.max.session.timeout.ms", INT, 60_000, Between(1),
        "Protocol consumer: the longest session timeout that a group may be given of its own.")
    group_consumer_min_heartbeat_interval_ms: int = _key("group.consumer.min.heartbeat.interval.ms", INT, 5_000,
        Between(1), "Protocol consumer: the shortest heartbeat interval that a group may be given of its own.")
    group_consumer_max_heartbeat_interval_ms: int = _key("group.consumer.max.heartbeat.interval.ms", INT, 15_000,
        Between(1), "Protocol consumer: the longest heartbeat interval that a group may be given of its own.")
    group_consumer_max_size: int = _key("group.consumer.max.size", INT, INT32_MAX, Between(1),
        "Protocol consumer: members that a group may have.")
    group_consumer_migration_policy: str = _key("group.consumer.migration.policy", STRING, "bidirectional",
        OneOf(("bidirectional", "downgrade", "disabled", "upgrade")),
        "Whether groups with members change their protocol: upgrade, to consumer when a member joins with it; "
        "downgrade, to classic when the last one with protocol consumer leaves; bidirectional; disabled.")
    group_consumer_assignors: str = _key("group.consumer.assignors", STRING, "uniform,range", ANYTHING,
        "Protocol consumer: how partitions are assigned, uniform or range; the first one where members ask for none.")
    offset_metadata_max_bytes: int = _key("offset.metadata.max.bytes", INT, 4_096, ANYTHING,
        "The longest text that a client may commit with an offset.")
    offsets_commit_timeout_ms: int = _key("offsets.commit.timeout.ms", INT, 5_000, Between(1),
        "How long a commit of offsets may take; after that the client gets an error that makes it retry.")
    offsets_retention_minutes: int = _key("offsets.retention.minutes", INT, 10_080, Between(1),
        "How long offsets are kept after their group lost its last member, or the last one that read their topic. "
        "The progress of Spark's sinks never expires.")
    offsets_retention_check_interval_ms: int = _key("offsets.retention.check.interval.ms", LONG, 600_000, Between(1),
        "How often expired offsets are deleted.")
    offsets_topic_num_partitions: int = _key("offsets.topic.num.partitions", INT, 50, Between(1),
        "Partitions that __consumer_offsets gets when it is created.")
    transaction_state_log_num_partitions: int = _key("transaction.state.log.num.partitions", INT, 50, Between(1),
        "Partitions that __transaction_state gets when it is created.")
    transaction_max_timeout_ms: int = _key("transaction.max.timeout.ms", INT, 900_000, Between(1),
        "The longest transaction timeout that a client may ask for; a transaction that exceeds its timeout is aborted.")
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = _key(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10_000, Between(1),
        "How often the gateway checks for transactions that have exceeded their timeout.")
    # fmt: on

    def __post_init__(self) -> None:
        for name, key in keys_of_gateway().items():
            object.__setattr__(self, name, key.check(getattr(self, name)))  # frozen: set only while being built
        check_ports("listeners", self.listeners, self.all_listeners)
        self._check_advertised()
        _ = self.consumer_assignors  # raises an error for a bad one
        if "classic" not in self.group_coordinator_rebalance_protocols:
            raise InvalidConfigError("group.coordinator.rebalance.protocols: classic cannot be turned off")
        for each in self.all_listeners:
            self._check_security(each)
        _ = self.tier_of("/")  # raises an error for a wrong URL
        parse_address_limits("max.connections.per.ip.overrides", self.max_connections_per_ip_overrides)
        check_kafka_version("inter.broker.protocol.version", self.inter_broker_protocol_version)

    def _check_advertised(self) -> None:
        names = {each.name for each in self.all_listeners}
        for name, address in self.advertised.items():
            problem = f"advertised.listeners = {self.advertised_listeners!r}: "
            if name not in names:
                raise InvalidConfigError(f"{problem}listeners has no {name}; it has {', '.join(sorted(names))}")
            if address.host in EVERYWHERE:
                raise InvalidConfigError(f"{problem}clients cannot connect to {address}; give a name or an IP address")

    def _check_security(self, listener: Listener) -> None:
        if listener.has_tls and not self.ssl_keystore_location:
            raise InvalidConfigError(f"listeners = {str(listener)!r}: needs a certificate: set ssl.keystore.location")
        mechanisms = self.sasl_enabled_mechanisms if listener.has_sasl else frozenset()
        if mechanisms - {"OAUTHBEARER"} and not self.commitlog_users_file:
            raise InvalidConfigError(f"listeners = {str(listener)!r}: needs users: set commitlog.users.file")
        if "OAUTHBEARER" in mechanisms and not self.sasl_oauthbearer_jwks_endpoint_url:
            raise InvalidConfigError(
                f"listeners = {str(listener)!r}: needs keys for OAUTHBEARER: set sasl.oauthbearer.jwks.endpoint.url"
            )
        if self.ssl_client_auth != "none" and listener.has_tls and not self.ssl_truststore_location:
            raise InvalidConfigError(
                f"ssl.client.auth = {self.ssl_client_auth!r}: needs the authorities of clients: "
                "set ssl.truststore.location"
            )
        knows_clients = listener.has_sasl or self.ssl_client_auth == "required"
        is_secure = listener.has_tls and knows_clients
        if not (is_secure or is_loopback(listener.address.host) or self.commitlog_insecure_listeners):
            raise InvalidConfigError(
                f"listeners = {str(listener)!r}: other machines could connect "
                f"{'without a login' if listener.has_tls else 'and be listened to'}: use SASL_SSL, or set "
                "commitlog.insecure.listeners = true"
            )

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """Returns the config for settings by Kafka's names; a value has the type of its key, or is text.

        Raises InvalidConfigError for a bad value and for an unknown key, with the most similar known one.
        """
        by_name = {key.name: name for name, key in keys_of_gateway().items()}
        for given, value in mapping.items():
            if given in BROKER_KEYS and given not in by_name:
                raise InvalidConfigError(
                    f"{given} is a setting of the log directory: commitlog configs --entity-type brokers "
                    f"--entity-default --alter --add-config {given}={value}"
                )
            if given not in by_name:
                raise InvalidConfigError(f"unknown gateway config {given}{did_you_mean(given, by_name)}")
        return cls(**{by_name[given]: value for given, value in mapping.items()})

    @cached_property
    def all_listeners(self) -> tuple[Listener, ...]:
        """The listeners, in the order of the setting; there is at least one."""
        return parse_listeners("listeners", self.listeners, self._protocols)

    @cached_property
    def advertised(self) -> dict[str, Address]:
        """The addresses for clients to connect to, by the name of the listener that they are connected to."""
        given = self.advertised_listeners
        found = parse_listeners("advertised.listeners", given, self._protocols) if given else ()
        return {each.name: each.address for each in found}

    @cached_property
    def consumer_assignors(self) -> tuple[str, ...]:
        """The assignors that members of groups of Kafka 4 may ask for; the first is the default."""
        names = tuple(each.strip() for each in self.group_consumer_assignors.split(",") if each.strip())
        if not names or {*names} - {*CONSUMER_ASSIGNORS}:
            known = ", ".join(CONSUMER_ASSIGNORS)
            raise InvalidConfigError(
                f"group.consumer.assignors = {self.group_consumer_assignors!r}: must be one or more of {known}"
            )
        return names

    def tier_of(self, log_dir: str) -> TierAddress | None:
        """Returns the address of a log directory with its tier; None without a tier. Raises InvalidConfigError."""
        url = self.commitlog_tier_url
        return tier_address(url, log_dir, sorted(self.commitlog_tier_keys)) if url else None

    def partitions_of(self, topic: str) -> int:
        """Returns the number of partitions that a topic gets if its creator gives none."""
        internal = {
            GROUP_METADATA_TOPIC: self.offsets_topic_num_partitions,
            TRANSACTION_STATE_TOPIC: self.transaction_state_log_num_partitions,
        }
        return internal.get(topic, self.num_partitions)

    @cached_property
    def kafka_version(self) -> kafka_nodes.KafkaVersion:
        """The version of Kafka whose format the nodes in the registry have."""
        return kafka_nodes.kafka_version(self.inter_broker_protocol_version)

    @cached_property
    def _protocols(self) -> dict[str, str]:
        return parse_protocols("listener.security.protocol.map", self.listener_security_protocol_map)


def keys_of_gateway() -> dict[str, Key]:
    """Returns the keys of :class:`GatewayConfig` by the names of its fields, in its order."""
    return keys_of(GatewayConfig)


def check_kafka_version(key: str, given: str) -> None:
    """Raises InvalidConfigError, which names ``key``, unless ``given`` is a version of Kafka from 0.7 to 3.9."""
    try:
        is_known = (0, 7) <= kafka_nodes.kafka_version(given) < (4, 0)
    except ValueError:
        is_known = False
    if not is_known:
        raise InvalidConfigError(f"{key} = {given!r}: must be a version of Kafka from 0.7 to 3.9, such as 0.8.2")
