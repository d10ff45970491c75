"""PrincipalRules: the documented examples of Kafka's SslPrincipalMapper, with its results."""

from __future__ import annotations

import ssl
import time
from pathlib import Path

import pytest
import trustme

from pyspark_commitlog.gateway.security.scram import LoginError
from pyspark_commitlog.gateway.security.tls.principal_rules import PrincipalRules
from pyspark_commitlog.storage import InvalidConfigError
from tests.gateway.security.conftest import Secured
from tests.support.gateway import WireClient

RULES = ", ".join(
    (
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
        "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
        "DEFAULT",
    )
)


@pytest.mark.parametrize(
    ("subject", "user"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_fits_names_the_user(subject: str, user: str) -> None:
    assert PrincipalRules(RULES).name(subject) == user


@pytest.mark.parametrize(
    ("rules", "subject", "user"),
    [
        (r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT", r"CN=Tkac\, Adam,OU=ITZ,DC=geodis,DC=cz", r"Tkac\, Adam"),
        ("RULE:^CN=([^,ADEFLTU,]+)(,.*|$)/$1/", "CN=x,O=y", "x"),
        ("RULE:CN=(.)(.)/$2$1$3/", "CN=ab", "ba$3"),
        ("RULE:CN=(.)(.)/$12-${1}/", "CN=ab", "a2-${1}"),
        (r"RULE:CN=(?<n>.)b/${n}\$\//".replace("?<", "?P<"), "CN=ab", "a$/"),
        ("RULE:(.*)/x-$0/", "CN=ab", "x-CN=abx-"),
        (",, RULE:nothing// ,,  DEFAULT ,, ", "CN=ab", "CN=ab"),
    ],
)
def test_rules_are_split_and_replacements_are_made_as_by_java(rules: str, subject: str, user: str) -> None:
    assert PrincipalRules(rules).name(subject) == user


@pytest.mark.parametrize(
    "rules",
    [
        *("default", "DEFAUL", "DEFAULT/L", "DEFAULT/U", "RULE:CN=(.*?),OU=ServiceUsers.*/$1"),
        *("rule:^CN=(.*?),OU=ServiceUsers.*$/$1/", "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U"),
        *("RULE:^CN=(.*?),OU=ServiceUsers.*$/L", "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU", "RULE:(/$1/"),
    ],
)
def test_another_form_is_refused(rules: str) -> None:
    with pytest.raises(InvalidConfigError, match=r"ssl\.principal\.mapping\.rules: "):
        PrincipalRules(rules)


def test_a_certificate_that_no_rule_names_is_not_let_in() -> None:
    with pytest.raises(LoginError, match="Failed to map name for 'O=x' based on SSL principal mapping rules"):
        PrincipalRules("RULE:^CN=(.*)$/$1/").name("O=x")


def connected(gateway: object, tls_files: Path, certificate: trustme.LeafCert) -> WireClient:
    context = ssl.create_default_context(cafile=str(tls_files / "ca.pem"))
    certificate.configure_cert(context)
    client = WireClient(gateway)  # type: ignore[arg-type]
    client.socket = context.wrap_socket(client.socket, server_hostname="127.0.0.1")
    return client


def test_rules_apply_to_the_user_of_a_certificate(secured: Secured, authority: trustme.CA, tls_files: Path) -> None:
    (tls_files / "rules.toml").write_text('[[allow]]\nusers = ["duke"]\noperations = ["create"]\ncluster = true\n')
    settings = {
        "ssl_client_auth": "required",
        "ssl_truststore_location": str(tls_files / "ca.pem"),
        "ssl_principal_mapping_rules": "RULE:^CN=([^,]*).*OU=users.*$/$1/L",
        "commitlog_rules_file": str(tls_files / "rules.toml"),
    }
    asked = {
        "name": f"t{time.time_ns()}",
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": (),
        "configs": (),
    }
    with secured("SSL", **settings) as gateway:
        duke = authority.issue_cert("duke", common_name="Duke", organization_unit_name="users")
        with connected(gateway, tls_files, duke) as client:
            assert not client.ask(19, 4, topics=[asked], timeout=1000).topics[0].error_code
        stranger = authority.issue_cert("duke", common_name="Duke", organization_unit_name="others")
        with connected(gateway, tls_files, stranger) as client, pytest.raises((EOFError, OSError)):
            client.ask(19, 4, topics=[asked], timeout=1000)
