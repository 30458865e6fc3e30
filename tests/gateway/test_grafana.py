"""The dashboard and the alerts ask for what `/metrics` gives: each metric, each label, each value."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gateway.figures import Figures, after_some_traffic

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana/greenroom.json").read_text("utf-8"))
ALERTS: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text("utf-8"))
SCRAPING: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text("utf-8"))

RULES: list[dict[str, Any]] = [rule for group in ALERTS["groups"] for rule in group["rules"]]
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]

FROM_PROMETHEUS = {"job", "instance", "le"}
"""Labels that come with the scrape, or with a histogram's buckets."""

METRIC = re.compile(r"\b((?:greenroom|process|python)_[a-z_]+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'([a-z_]+)\s*(=~|!~|=|!=)\s*"([^"]*)"')
GROUPING = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    return after_some_traffic(tmp_path_factory.mktemp("store"))


def expressions() -> Iterator[tuple[str, str]]:
    """Every expression, with where it stands."""
    for panel in PANELS:
        for target in panel.get("targets", ()):
            yield f"{panel['title']}, {target['refId']}", target["expr"]
    for rule in RULES:
        yield rule["alert"], rule["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield f"${variable['name']}", variable["definition"]


def problems(some: Figures, expression: str) -> Iterator[str]:
    """What an expression asks for, and nobody gives."""
    labels: dict[str, set[str]] = {}
    for name, has, _ in some.samples:
        for label, value in has.items():
            labels.setdefault(f"{name} {label}", set()).add(value)
    everywhere = {key.partition(" ")[2] for key in labels} | FROM_PROMETHEUS
    for name, matchers in METRIC.findall(expression):
        if name not in some.names:
            yield f"there is no {name}"
        for label, operator, value in MATCHER.findall(matchers):
            if label in FROM_PROMETHEUS:
                continue
            known = labels.get(f"{name} {label}")
            if known is None:
                yield f"{name} has no label {label}"
            elif operator in ("=", "=~") and name not in VALUES_COME_LATER and value not in known:
                wanted = set(value.split("|"))
                if not wanted & known:
                    yield f"no {name} has {label}={value}"
    for listed in GROUPING.findall(expression):
        for label in re.findall(r"[a-z_]+", listed):
            if label not in everywhere:
                yield f"nothing has the label {label}"


VALUES_COME_LATER: set[str] = {"greenroom_turns_total"}
"""Metrics whose label values are there when the first turn has ended so."""


@pytest.mark.parametrize(("where", "expression"), list(expressions()), ids=lambda text: text[:40])
def test_what_is_asked_for_is_there(some: Figures, where: str, expression: str) -> None:
    assert METRIC.search(expression) or "up{" in expression, where
    assert list(problems(some, expression)) == [], where
    assert expression.count("(") == expression.count(")")


@pytest.mark.parametrize(
    "expression",
    [
        "rate(greenroom_turn_total[5m])",
        'greenroom_sessions{stat="cached"}',
        'greenroom_sessions{state="chached"}',
        "sum by (reasons) (greenroom_releases_total)",
    ],
)
def test_what_is_not_there_is_found(some: Figures, expression: str) -> None:
    assert len(list(problems(some, expression))) == 1


def test_every_metric_is_on_the_dashboard(some: Figures) -> None:
    asked = {name for _, expression in expressions() for name, _ in METRIC.findall(expression)}
    asked |= {re.sub(r"_(bucket|count|sum)$", "", name) for name in asked}
    there = {
        name
        for name in some.names
        if name.startswith("greenroom_") and not name.endswith(("_bucket", "_count", "_sum"))
    }
    assert there - asked == {"greenroom_turns_waiting_limit"}


# The dashboard


def test_panels_have_ids_of_their_own_and_titles() -> None:
    ids = [panel["id"] for panel in PANELS]
    assert len(set(ids)) == len(ids)
    assert all(panel["title"] for panel in PANELS)


def test_panels_do_not_lie_on_each_other() -> None:
    for panel in PANELS:
        at = panel["gridPos"]
        assert at["w"] > 0
        assert at["h"] > 0
        assert 0 <= at["x"] <= 24 - at["w"]
    for one, other in itertools.combinations((panel["gridPos"] for panel in PANELS), 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above, (one, other)


def test_the_rows_are_in_the_order_in_which_one_asks() -> None:
    rows = [panel["title"] for panel in PANELS if panel["type"] == "row"]
    assert rows == ["At a glance", "Turns", "Agents and eviction", "Commits and the store", "Process"]


def test_everything_asks_the_prometheus_that_is_chosen() -> None:
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"
    for asking in (*variables.values(), *PANELS):
        if asking["type"] not in ("datasource", "row"):
            assert asking["datasource"] == chosen
    for panel in PANELS:
        for target in panel.get("targets", ()):
            assert target["datasource"] == chosen
            for name, matchers in METRIC.findall(target["expr"]):
                assert 'job=~"$job", instance=~"$instance"' in matchers, name


def test_targets_of_a_panel_have_letters_of_their_own() -> None:
    for panel in PANELS:
        letters = [target["refId"] for target in panel.get("targets", ())]
        assert letters == sorted(set(letters))
        assert letters or panel["type"] == "row"


# Prometheus


def test_alerts_say_what_is_wrong_and_what_to_do() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"].endswith(".")


def test_the_example_scrapes_the_job_that_the_alerts_are_about() -> None:
    assert SCRAPING["rule_files"] == ["alerts.yml"]
    (job,) = SCRAPING["scrape_configs"]
    assert job["job_name"] == "greenroom"
    assert job.get("metrics_path", "/metrics") == "/metrics"
