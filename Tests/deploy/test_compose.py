"""The compose files: all named files exist, all versions are fixed, and no secret has a default."""

import re

import pytest
from deployment import DEPLOY, ROOT, load, release_binary, run

COMPOSE = load(ROOT / "docker-compose.yml")
SERVICES = COMPOSE["services"]
GATEWAYS = ["gateway-a", "gateway-b"]


def substitutions(text: str) -> dict[str, str]:
    """Variable → the text after its name, such as `:?message` or `:-default`."""
    return dict(re.findall(r"\$\{(\w+)([^}]*)\}", text))


def test_has_the_services():
    assert set(SERVICES) == {"postgres", "migrate", *GATEWAYS, "proxy", "prometheus"}


@pytest.mark.parametrize("name", SERVICES)
def test_images_are_pinned(name):
    image = SERVICES[name]["image"]
    assert ":" in image and not image.endswith(":latest"), image


@pytest.mark.parametrize("name", SERVICES)
def test_dependencies_exist_and_can_be_met(name):
    for other, how in SERVICES[name].get("depends_on", {}).items():
        condition = how["condition"]
        if condition == "service_healthy":
            assert "test" in SERVICES[other]["healthcheck"]
        elif condition == "service_completed_successfully":
            assert SERVICES[other]["restart"] == "no"
        else:
            assert condition == "service_started" and other in SERVICES


@pytest.mark.parametrize("name", SERVICES)
def test_every_server_has_a_healthcheck_and_a_restart_policy(name):
    service = SERVICES[name]
    if service["restart"] == "no":
        assert service["healthcheck"] == {"disable": True}
    else:
        assert service["restart"] == "unless-stopped"
        assert service["healthcheck"]["test"][0] == "CMD"


def test_each_image_is_built_once():
    """Several services that build one tag would conflict."""
    built = [service["image"] for service in SERVICES.values() if "build" in service]
    assert built == ["pathmirror:local"]
    assert SERVICES["migrate"]["build"], "the services that the gateways wait for"
    assert all(SERVICES[name]["image"] == built[0] for name in GATEWAYS)


@pytest.mark.parametrize("name", SERVICES)
def test_every_container_is_confined(name):
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"] and "cap_add" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] is True


def test_files_volumes_and_secrets_that_are_named_exist():
    for service in SERVICES.values():
        if "build" in service:
            assert (ROOT / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (ROOT / source).exists() if source.startswith("./") else source in COMPOSE["volumes"], volume
        assert set(service["networks"]) <= set(COMPOSE["networks"])
        for secret in service.get("secrets", []):
            assert secret in COMPOSE["secrets"]


def test_no_secret_is_written_down_or_has_a_default():
    for name, service in SERVICES.items():
        for key, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|SECRET|TOKEN", key):
                assert re.fullmatch(r"\$\{\w+:\?[^}]+\}|/run/secrets/\w+", value), f"{name}: {key}"
    # Compose cannot copy a file from the environment into a container with a read-only file system.
    (secret,) = COMPOSE["secrets"].values()
    assert secret == {"file": "${PATHMIRROR_ADMIN_SECRET_FILE:-./deploy/secrets/admin-secret}"}
    assert {"/deploy/secrets/", ".env"} <= set((ROOT / ".gitignore").read_text().split())
    assert not re.search(r"://[^/\s]*:[^/\s]*@", (ROOT / "docker-compose.yml").read_text()), "a password in a URL"


def test_env_example_names_every_variable_and_sets_no_secret():
    text = "".join(file.read_text() for file in (ROOT / "docker-compose.yml", DEPLOY / "compose.tls.yml", DEPLOY / "compose.ha.yml"))
    example = dict(re.findall(r"^#?([A-Z_]+)=(.*)$", (DEPLOY / ".env.example").read_text(), re.MULTILINE))
    used = substitutions(text)
    assert set(example) == set(used)
    for name, value in example.items():
        if used[name].startswith(":?"):
            assert value == ""
        else:
            assert used[name] == f":-{value}", f"{name}: the example's default differs from the compose file's"


def test_gateways_are_alike_and_end_gracefully():
    first, second = (dict(SERVICES[name]) for name in GATEWAYS)
    labels = [dict(gateway.pop("environment")) for gateway in (first, second)]
    assert [environment.pop("PATHMIRROR_SESSION_LABEL") for environment in labels] == ["a", "b"]
    assert labels[0] == labels[1] and first == second
    assert int(labels[0]["PATHMIRROR_SHUTDOWN_TIMEOUT"].removesuffix("s")) < int(first["stop_grace_period"].removesuffix("s"))
    assert "ports" not in first, "the gateways are reached through the proxy"


def test_gateways_know_the_proxy_and_not_the_superuser():
    environment = SERVICES["gateway-a"]["environment"]
    (front,) = COMPOSE["networks"]["front"]["ipam"]["config"]
    (database,) = COMPOSE["networks"]["database"]["ipam"]["config"]
    # The proxy, and the other gateway, which forwards requests of feeds.
    assert environment["PATHMIRROR_TRUSTED_PROXIES"] == f"{front['subnet']},{database['subnet']}"
    assert SERVICES["proxy"]["networks"] == ["front"]
    (monitoring,) = COMPOSE["networks"]["monitoring"]["ipam"]["config"]
    assert environment["PATHMIRROR_METRICS_FROM"] == monitoring["subnet"]
    assert SERVICES["prometheus"]["networks"] == ["monitoring"]
    roles = (DEPLOY / "postgres/roles.sh").read_text()
    users = {SERVICES[name]["environment"]["PATHMIRROR_DATABASE_URL"].split("/")[2].split("@")[0] for name in ("gateway-a", "migrate")}
    assert users == {"pathmirror_gateways", "pathmirror_owner"}
    assert all(f"alter role {user} login password" in roles for user in users)
    assert "superuser" not in roles
    assert SERVICES["postgres"]["networks"] == ["database"] and COMPOSE["networks"]["database"]["internal"]


def test_names_and_limits_agree_between_the_files():
    nginx = (DEPLOY / "nginx/nginx.conf").read_text()
    pools = (DEPLOY / "nginx/upstreams.conf").read_text()
    assert set(re.findall(r"^ +server (\S+) resolve", pools, re.MULTILINE)) == {f"{name}:9000" for name in GATEWAYS}
    assert len(re.findall(r"^ +server ", pools, re.MULTILINE)) == len(re.findall(r"^ +server \S+ resolve", pools, re.MULTILINE))
    for name in GATEWAYS:
        label = SERVICES[name]["environment"]["PATHMIRROR_SESSION_LABEL"]
        assert re.search(rf"~\^{label} +home_{name.replace('-', '_')};", pools)
        assert f"/tmp/out/{name})" in (DEPLOY / "nginx/pool.conf").read_text()
    scrapes = load(DEPLOY / "prometheus/prometheus.yml")["scrape_configs"]
    assert scrapes[0]["static_configs"][0]["targets"] == [f"{name}:9000" for name in GATEWAYS]
    environment = SERVICES["gateway-a"]["environment"]
    assert environment["PATHMIRROR_LISTEN"].endswith(":9000")
    megabytes = int(re.search(r"client_max_body_size (\d+)m;", nginx)[1])
    assert environment["PATHMIRROR_MAX_BODY"] == f"{megabytes}MiB"
    mounted = {volume.split(":")[1] for volume in SERVICES["gateway-a"]["volumes"]}
    assert environment["PATHMIRROR_RULES"] in mounted


def test_the_tls_overlay_changes_the_proxy_only():
    overlay = load(DEPLOY / "compose.tls.yml")["services"]
    assert set(overlay) == {"proxy"}
    base = {volume.split(":")[1] for volume in SERVICES["proxy"]["volumes"]}
    (configuration, certificates) = overlay["proxy"]["volumes"]
    assert (ROOT / configuration.split(":")[0]).is_file()
    assert configuration.split(":")[1] in base, "it must replace the plain server block"
    assert certificates.split(":")[0] == "./deploy/tls"
    assert "/deploy/tls/" in (ROOT / ".gitignore").read_text().split()


def merged(below: dict, above: dict) -> dict:
    """Merges a service of two compose files, as far as this test needs it: Compose concatenates lists, except for these."""
    both = {key: below[key] + value for key, value in above.items()
            if isinstance(value, list) and isinstance(below.get(key), list) and key not in ("command", "networks", "volumes")}
    return {**below, **above, **both}


@pytest.mark.parametrize("overlay", sorted(DEPLOY.glob("compose.*.yml")), ids=lambda path: path.name)
def test_no_list_has_something_twice_when_files_are_laid_over_one_another(overlay):
    """Compose rejects duplicates that two valid files create together."""
    for name, service in load(overlay)["services"].items():
        for key, value in merged(SERVICES.get(name, {}), service).items():
            assert not isinstance(value, list) or len(value) == len({str(one) for one in value}), f"{name}: {key}: {value}"


NODES, MEMBERS = ["postgres", "postgres-2", "postgres-3"], ["etcd-1", "etcd-2", "etcd-3"]


def test_the_ha_overlay_has_three_nodes_that_everybody_knows():
    overlay = load(DEPLOY / "compose.ha.yml")
    services = overlay["services"]
    assert set(services) == {*NODES, *MEMBERS, "migrate", *GATEWAYS}
    for name in ("migrate", *GATEWAYS):
        url = services[name]["environment"]["PATHMIRROR_DATABASE_URL"]
        before = SERVICES[name]["environment"]["PATHMIRROR_DATABASE_URL"]
        assert url == before.replace("@postgres:5432", "@" + ",".join(NODES)) + "?target_session_attrs=read-write"
        assert set(services[name]["environment"]) == {"PATHMIRROR_DATABASE_URL"}
    built = [name for name, service in services.items() if "build" in service]
    assert built == ["postgres"] and (ROOT / "deploy/patroni/Dockerfile").is_file()
    for name in (*NODES, *MEMBERS):
        service = services[name]
        assert service["image"] == "pathmirror-patroni:local" and service["networks"] == ["database"] and "ports" not in service
        confined = merged(SERVICES.get(name, {}), service)
        assert confined["cap_drop"] == ["ALL"] and confined["security_opt"] == ["no-new-privileges:true"] and confined["read_only"] is True
        assert service["restart"] == "unless-stopped" and service["healthcheck"]["test"][0] == "CMD"
        assert service["environment"]["NODE_NAME"] == name
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert (ROOT / source).exists() if source.startswith("./") else source in overlay["volumes"], volume
        for key, value in service["environment"].items():
            assert "PASSWORD" not in key or re.fullmatch(r"\$\{\w+:\?[^}]+\}", value), f"{name}: {key}"
    # Each has files of its own.
    own = [volume.split(":")[0] for name in (*NODES, *MEMBERS) for volume in services[name]["volumes"] if not volume.startswith("./")]
    assert sorted(own) == sorted(overlay["volumes"])


def test_patroni_keeps_what_is_acknowledged_on_two_disks():
    patroni = load(DEPLOY / "patroni/patroni.yml")
    dcs = patroni["bootstrap"]["dcs"]
    assert dcs["synchronous_mode"] is True and dcs["synchronous_mode_strict"] is True
    # Patroni's rule for its times, so that a primary that cannot renew its lease has stopped before the next one is promoted.
    assert dcs["loop_wait"] + 2 * dcs["retry_timeout"] <= dcs["ttl"]
    assert dcs["postgresql"]["parameters"]["synchronous_commit"] == "on"
    assert dcs["postgresql"]["use_pg_rewind"] is True and dcs["postgresql"]["parameters"]["wal_log_hints"] == "on"
    start = (DEPLOY / "patroni/start").read_text()
    assert patroni["etcd3"]["hosts"] == [f"{name}:2379" for name in MEMBERS]
    assert all(f"{name}=http://{name}:2380" in start for name in MEMBERS)
    assert "trust" not in "".join(rule for rule in patroni["postgresql"]["pg_hba"] if rule.startswith("host"))
    # Otherwise the first copy takes minutes, and with it the first write.
    assert {"checkpoint": "fast"} in patroni["postgresql"]["basebackup"]
    for script in ("start", "after-bootstrap", "healthy", "ctl"):
        assert (DEPLOY / "patroni" / script).stat().st_mode & 0o111
        run("sh", "-n", DEPLOY / "patroni" / script)


def test_serve_has_the_options_that_are_set():
    names = set(SERVICES["gateway-a"]["environment"])
    names |= set(re.findall(r"^#?(PATHMIRROR_\w+)=", (DEPLOY / "pathmirror.env.example").read_text(), re.MULTILINE))
    names |= set(re.findall(r"^Environment=(PATHMIRROR_\w+)=", (DEPLOY / "pathmirror.service").read_text(), re.MULTILINE))
    help_text = run(release_binary(), "serve", "--help", "all").stdout
    for name in sorted(names):
        if name.startswith("PATHMIRROR_"):
            flag = "--" + name.removeprefix("PATHMIRROR_").lower().replace("_", "-")
            assert re.search(rf"(?<![\w-]){flag}(?![\w-])", help_text), f"{name}: serve has no {flag}"
