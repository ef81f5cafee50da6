"""The chart, the manifest, the compose file and the container file start servers that trust each other."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import leasehold
from leasehold.cli.command_line import parse
from leasehold.cli.entry.table import VERBS
from leasehold.routing.links import checked_address, is_trusted
from leasehold.server.api.openapi import document
from tests.kit import charts
from tests.kit.shell import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

CONTAINERFILE = ROOT / "deploy" / "Containerfile"
BUILDERS = ("podman", "buildah", "docker")
PATIENCE = 600
LOOK = 30
TLS = {"tls": {"secretName": "certificate", "ownAuthority": True}}
VALUES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "the URL itself": {"database": {"url": "postgresql://l:p@db/locks", "existingSecret": ""}},
    "one server": {"replicas": 1},
    "five servers": {"replicas": 5},
    "without owners": {"owners": False},
    "https": TLS,
    "more options": {
        "extraArgs": ["--log-format", "text", "--traces", "otlp"],
        "extraEnv": [{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://collector:4318"}],
        "image": {"repository": "registry.example/leasehold", "tag": "9", "pullSecrets": [{"name": "registry"}]},
        "podAnnotations": {"prometheus.io/scrape": "true"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
    },
}


def container(parts: list[dict[str, Any]]) -> dict[str, Any]:
    told: dict[str, Any] = charts.only("StatefulSet", parts)["spec"]["template"]["spec"]["containers"][0]
    return told


def served(words: list[str]) -> Mapping[str, Any]:
    """The options of `leasehold serve` in these words, which it must understand."""
    line = parse(words, VERBS)
    assert line is not None
    assert line.verb.name == "serve"
    return line.values


def check_trust(servers: dict[str, Mapping[str, Any]]) -> None:
    """Each server may hand requests on to each other one: by the address under which that one can be reached."""
    for own, options in servers.items():
        assert checked_address(options["advertise"], "advertise") == own
        named = [checked_address(peer, "peer") for peer in options["peer"]]
        for other in servers:
            assert other == own or is_trusted(other, own=own, named=named), (own, other)


# ------------------------------------------------------------------------------------------------- Kubernetes


def test_the_chart_is_well_formed() -> None:
    report = charts.helm().lint(charts.CHART, charts.PLAIN, strict=True)
    assert [each for each in report["messages"] if each["severity"] > 1] == []
    assert report["errors"] == []
    told = yaml.safe_load((charts.CHART / "Chart.yaml").read_text())
    assert (told["version"], told["appVersion"]) == (leasehold.__version__, leasehold.__version__)


@pytest.mark.parametrize("values", VALUES.values(), ids=list(VALUES))
def test_every_object_is_what_kubernetes_takes(values: dict[str, Any]) -> None:
    parts = charts.rendered(values)
    for part in parts:
        charts.check(part)
    kinds = [part["kind"] for part in parts]
    assert kinds.count("PodDisruptionBudget") == (values.get("replicas") != 1)
    assert kinds.count("Secret") == ("database" in values)
    pods = charts.only("StatefulSet", parts)["spec"]["template"]["metadata"]["labels"]
    for part in parts:
        wanted = part["spec"].get("selector") if part["kind"] != "Secret" else None
        assert wanted is None or wanted.get("matchLabels", wanted).items() <= pods.items(), part["kind"]


def test_an_object_that_kubernetes_does_not_take_is_found() -> None:
    (budget,) = [part for part in charts.rendered() if part["kind"] == "PodDisruptionBudget"]
    charts.check(budget)
    with pytest.raises(Exception, match="maxAvailable"):
        charts.check({**budget, "spec": {**budget["spec"], "maxAvailable": 1}})


@pytest.mark.parametrize("values", [*VALUES.values()], ids=list(VALUES))
def test_the_chart_starts_servers_that_trust_each_other(values: dict[str, Any]) -> None:
    parts = charts.rendered(values)
    pod, it = charts.only("StatefulSet", parts), container(parts)
    options = served(it["args"])
    assert (options["host"], options["port"]) == ("0.0.0.0", "7420")
    assert it["ports"] == [{"name": "http", "containerPort": 7420}]
    assert pod["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > 10
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = it[probe]["httpGet"]
        assert asked["path"] in document()["paths"]
        assert asked["scheme"] == ("HTTPS" if values is TLS else "HTTP")
    if values.get("owners") is False:
        assert not options["advertise"]
        return
    headless = next(part for part in parts if part.get("spec", {}).get("clusterIP") == "None")
    assert pod["spec"]["serviceName"] == headless["metadata"]["name"]
    assert {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}} in it["env"]
    names = [f"{pod['metadata']['name']}-{place}" for place in range(pod["spec"]["replicas"])]
    scheme = "https" if values is TLS else "http"
    servers = {
        f"{scheme}://{name}.{headless['metadata']['name']}:7420": served(
            [word.replace("$(POD_NAME)", name) for word in it["args"]]
        )
        for name in names
    }
    check_trust(servers)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"database": {"existingSecret": ""}}, "where is the database"),
        ({"database": {"existingSecret": "a", "url": "postgresql://b"}}, "not both"),
        ({"database": {"url": "sqlite:///locks.db"}}, "url"),
        ({"replica": 3}, "replica"),
        ({"replicas": 0}, "replicas"),
    ],
)
def test_values_that_cannot_be_right_are_refused(values: dict[str, Any], why: str) -> None:
    with pytest.raises(charts.helm().HelmError, match=why):
        charts.rendered(values)


def test_the_manifest_is_the_chart_with_its_usual_values() -> None:
    told = list(yaml.safe_load_all(charts.MANIFEST.read_text()))
    assert told == charts.without_helm(charts.rendered()), "write it anew: python -m tests.kit.charts"


# ---------------------------------------------------------------------------------------------------- compose


def test_the_compose_file_starts_servers_that_trust_each_other() -> None:
    told = charts.compose(charts.COMPOSE.read_text())
    services = told["services"]
    servers = {name: it for name, it in services.items() if (it.get("command") or [""])[0] == "serve"}
    assert len(servers) == 2
    check_trust({f"http://{name}:7420": served(it["command"]) for name, it in servers.items()})
    assert all(it["ports"][0].startswith("127.0.0.1:") for it in servers.values())
    assert {it["image"].partition(":")[2] for it in servers.values()} == {leasehold.__version__}
    first = parse(services["keys"]["command"], VERBS)
    assert first is not None
    assert (first.verb.name, first.values["role"]) == ("keys create", "admin")
    assert services["keys"]["profiles"] == ["setup"]
    assert (charts.COMPOSE.parent / servers["a"]["build"]["context"] / servers["a"]["build"]["dockerfile"]).exists()
    password = services["postgres"]["environment"]["POSTGRES_PASSWORD"]
    for it in (*servers.values(), services["keys"]):
        assert it["environment"]["LEASEHOLD_URL"] == f"postgresql://leasehold:{password}@postgres/leasehold"
    assert "${POSTGRES_PASSWORD:?" in charts.COMPOSE.read_text(), "no password of its own"


def test_a_compose_file_with_an_unknown_field_is_found() -> None:
    with pytest.raises(ValueError, match="prots"):
        charts.compose("services: {a: {image: x, prots: [80]}}")


# -------------------------------------------------------------------------------------------------- container


def test_the_container_file_starts_what_there_is() -> None:
    lines = dict(re.findall(r"^(ENTRYPOINT|CMD) (\[.*\])$", CONTAINERFILE.read_text(), re.MULTILINE))
    assert json.loads(lines["ENTRYPOINT"]) == ["leasehold"]
    assert served(json.loads(lines["CMD"]))["host"] == "0.0.0.0"
    extras = re.findall(r"\)\[([a-z,]+)\]", CONTAINERFILE.read_text())
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras[0].split(",")) <= known.keys()


def builder() -> str:
    """A program that builds containers here, and has somewhere to do it; without one the test is skipped."""
    why = []
    for name in BUILDERS:
        if shutil.which(name) is None:
            why.append(f"{name} is not installed")
        elif subprocess.run([name, "info"], capture_output=True, check=False, timeout=LOOK).returncode:
            why.append(f"{name} has no engine")
        else:
            return name
    pytest.skip(f"NOT RUN: the container file was not built: {', '.join(why)}.")


@pytest.mark.timeout(PATIENCE)
def test_the_container_file_builds() -> None:
    name = builder()
    for image in re.findall(r"^FROM (\S+)", CONTAINERFILE.read_text(), re.MULTILINE):
        pulled = subprocess.run([name, "pull", image], capture_output=True, text=True, check=False, timeout=PATIENCE)
        if pulled.returncode:
            pytest.skip(
                f"NOT RUN: the container file was not built: {name} cannot fetch {image}: {pulled.stderr[:200]}"
            )
    tag = "localhost/leasehold-tested"
    subprocess.run([name, "build", "-f", CONTAINERFILE, "-t", tag, ROOT], check=True, timeout=PATIENCE)
    if name != "buildah":
        told = subprocess.run(
            [name, "run", "--rm", tag, "--version"], capture_output=True, check=True, timeout=PATIENCE
        )
        assert leasehold.__version__ in told.stdout.decode()
