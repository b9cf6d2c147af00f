"""The image, the unit, the monitoring rules and the scripts, checked by the programs that read them."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from deployment import DEPLOY, ROOT, load, release_binary, run, tool

DOCKERFILE = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
YAML_FILES = sorted(ROOT.glob("*.y*ml")) + sorted(DEPLOY.rglob("*.y*ml")) + sorted((ROOT / "Tests/deploy").glob("*.y*ml"))


def scripts() -> list[Path]:
    folders = (ROOT / ".ci", ROOT / "scripts", DEPLOY, DEPLOY / "postgres")
    found = [path for folder in folders for path in sorted(folder.iterdir()) if path.is_file()]
    return [path for path in found if re.match(r"#!.*\b(ba)?sh\n", path.read_text())]


def require_bookworm():
    if "bookworm" not in Path("/etc/os-release").read_text():
        pytest.skip("the image is Debian 12 and this machine is not")


def image_packages() -> list[list[str]]:
    """The packages that each stage of the image installs."""
    found = re.findall(r"apt-get install --yes --no-install-recommends ([^&]*)&&", DOCKERFILE)
    return [words.split() for words in found]


# YAML


class UniqueKeys(yaml.SafeLoader):
    """Refuses a key that is given twice, which other YAML readers accept silently."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        assert len(keys) == len(set(keys)), f"a key twice: {node.start_mark}"
        return super().construct_mapping(node, deep)


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_yaml_is_well_formed(path):
    assert yaml.load(path.read_text(encoding="utf-8"), UniqueKeys)


# The image


def test_base_images_are_pinned():
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert len(bases) == 2
    assert all(":" in base and not base.endswith(":latest") for base in bases)


def test_image_runs_unprivileged_and_says_how_it_is():
    final = DOCKERFILE.split("\nFROM ")[-1]
    assert re.search(r"^USER (?!root|0)\S+$", final, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK .*/\.health/live", final, re.MULTILINE)
    assert 'ENTRYPOINT ["pathmirror"]' in final and 'CMD ["serve"]' in final
    assert "EXPOSE 9000" in final


def test_build_context_has_the_sources():
    # COPY takes the files that .dockerignore permits, so a source that is missing there is missing in the image.
    assert re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE) == [". ."]
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert {"Package.swift", "Sources", "Tests"} <= allowed
    manifest = ROOT / "Package.swift"
    if manifest.exists():
        folders = {path.split("/")[0] for path in re.findall(r'path: "([^"]+)"', manifest.read_text())}
        assert folders <= allowed, "the manifest uses folders that .dockerignore keeps out"


def test_image_is_built_from_the_packages_that_the_script_installs():
    script = (ROOT / "scripts/install-dependencies").read_text().replace("\\\n", " ")
    wanted = re.search(r"build\)\s+echo (.*)\n", script)[1].split()
    assert set(image_packages()[0]) == set(wanted)


def test_packages_exist():
    apt = tool("apt-cache")
    script = (ROOT / "scripts/install-dependencies").read_text().replace("\\\n", " ")
    names = {name for line in re.findall(r"\) echo (.*) ;;", script) for name in line.split()}
    names |= {name for stage in image_packages() for name in stage}
    require_bookworm()
    known = set(re.findall(r"^Package: (\S+)$", run(apt, "show", *sorted(names), check=False).stdout, re.MULTILINE))
    if "ca-certificates" not in known:
        pytest.skip("this machine has no package lists (apt-get update)")
    assert known >= names, names - known


def test_image_has_the_libraries_that_the_binary_needs():
    binary = release_binary()
    require_bookworm()
    closure = run(tool("apt-cache"), "depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks",
                  "--no-replaces", "--no-enhances", *image_packages()[1]).stdout
    packaged = set(re.findall(r"^(\S+)$", closure, re.MULTILINE))
    for line in run(tool("ldd"), binary).stdout.splitlines():
        library = re.search(r"=> (/\S+)", line)
        if library is None or "/swift/" in library[1]:
            continue  # the kernel's own, or the Swift runtime, which the image links statically
        # By name: the package database knows some files under /lib and some under /usr/lib.
        owners = run("dpkg-query", "--search", f"*/{Path(library[1]).resolve().name}").stdout
        names = set(re.findall(r"^([^\s:]+)", owners, re.MULTILINE))
        assert names & packaged, f"{library[1]} is in {names}, which the image does not install"


# The unit


@pytest.fixture
def unit(tmp_path):
    """The unit with a program that exists: systemd-analyze looks for it."""
    path = tmp_path / "pathmirror.service"
    text = (DEPLOY / "pathmirror.service").read_text()
    assert text.count("/usr/local/bin/pathmirror") == 1
    path.write_text(text.replace("/usr/local/bin/pathmirror", shutil.which("true")))
    return path


def test_systemd_takes_the_unit(unit):
    done = run(tool("systemd-analyze"), "verify", "--man=no", unit)
    assert "pathmirror" not in done.stderr, done.stderr


def test_unit_is_hardened(unit):
    done = run(tool("systemd-analyze"), "security", "--offline=yes", "--threshold=20", unit, check=False)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze cannot judge a unit file offline")
    assert done.returncode == 0, done.stdout


# Monitoring


def test_prometheus_takes_the_configuration():
    run(tool("promtool"), "check", "config", DEPLOY / "prometheus/prometheus.yml")


def test_alerts_fire_when_they_should(tmp_path):
    shutil.copy(DEPLOY / "prometheus/alerts.yml", tmp_path)
    shutil.copy(ROOT / "Tests/deploy/alerts_test.yml", tmp_path)
    run(tool("promtool"), "test", "rules", tmp_path / "alerts_test.yml")


def undocumented(names: set[str]) -> list[str]:
    """Names of series that the reference page, which is printed from the table of metrics, does not have."""
    documented = set(re.findall(r"^\| `(pathmirror_\w+)", (ROOT / "docs/reference/metrics.md").read_text(), re.MULTILINE))
    return [name for name in sorted(names) if not {name, re.sub("_(bucket|sum|count)$", "", name)} & documented]


def test_alerts_use_metrics_that_the_gateway_has():
    names = set(re.findall(r"\b(pathmirror_\w+)", (DEPLOY / "prometheus/alerts.yml").read_text()))
    assert names and not undocumented(names)


def test_each_alert_names_its_section_of_the_runbook():
    headings = re.findall(r"^#+ (.+)$", (ROOT / "docs/runbook.md").read_text(), re.MULTILINE)
    rules = load(DEPLOY / "prometheus/alerts.yml")["groups"][0]["rules"]
    alerts = {rule["alert"]: rule["annotations"]["runbook"] for rule in rules if "alert" in rule}
    assert alerts == {name: f"docs/runbook.md#{name.lower()}" for name in alerts}
    assert set(alerts) <= set(headings), set(alerts) - set(headings)
    assert {heading for heading in headings if heading.startswith("Pathmirror")} <= set(alerts)


def dashboard() -> dict:
    return json.loads((DEPLOY / "grafana/pathmirror.json").read_text())


def expressions() -> list[str]:
    return [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", [])]


def test_the_dashboard_asks_what_prometheus_understands(tmp_path):
    rules = [{"record": f"panel:{number}", "expr": expression.replace("$__rate_interval", "5m").replace("$instance", ".*")}
             for number, expression in enumerate(expressions())]
    assert len(rules) > 30 and not [rule for rule in rules if "$" in rule["expr"]]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    run(tool("promtool"), "check", "rules", tmp_path / "rules.yml")


def test_the_dashboard_uses_metrics_that_are_documented():
    names = {name for expression in expressions() for name in re.findall(r"\b(pathmirror_\w+)", expression)}
    assert names and not undocumented(names)


def test_the_dashboards_panels_have_places_of_their_own():
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = [(panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y) for panel in panels
             for x in range(panel["gridPos"]["w"]) for y in range(panel["gridPos"]["h"])]
    assert len(set(taken)) == len(taken) and max(x for x, _ in taken) == 23
    assert all(panel["title"] and (panel["type"] == "row" or panel["description"]) for panel in panels)


# Scripts


@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.name)
def test_script_parses(script):
    assert script.stat().st_mode & 0o111, "not executable"
    shell = "bash" if "bash" in script.read_text().splitlines()[0] else "sh"
    run(shell, "-n", script)


def test_scripts_satisfy_shellcheck():
    run(tool("shellcheck"), *scripts())
