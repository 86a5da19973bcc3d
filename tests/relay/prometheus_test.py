#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A real Prometheus scrapes the relay's metrics, and the test asks its API what it has read. The test
also gives it the queries of the Grafana dashboard and of the example alert rules, and compares
these with the metrics that the relay has.

Environment: as for traffic.py. Fails without prometheus; scripts/setup test installs it.
"""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from traffic import Backend, Load, Relay, RelayByConfig, ask, eventually, free_port, own_host

PACKAGING = os.environ["SENNIT_SOURCE_DIR"] + "/packaging/"
DASHBOARD = PACKAGING + "grafana-dashboard.json"
RULES = PACKAGING + "sennit-relay.rules.yml"
# What a selector may name besides the labels of the metrics: those that Prometheus adds.
ADDED_LABELS = {"instance", "job"}

CONFIGURATION = """
global:
  scrape_interval: 1s
  scrape_timeout: 1s
scrape_configs:
  - job_name: sennit-relay
    static_configs:
      - targets: ["{admin}"]
"""


# A relay with everything: limits, a queue with clients in it, a failing backend, a name that
# resolves, and another one that does not.
EVERYTHING = """
admin = "127.0.0.1:0"
[listeners.web]
address = "127.0.0.1:0"
group = "web"
max_connections = 100
bandwidth = "1MiB"
[listeners.bad]
address = "127.0.0.1:0"
group = "bad"
[groups.web]
queue = 10
queue_timeout = "10m"
backends = [{{ address = "localhost:{port}", max_connections = 3 }}]
[groups.bad]
retries = 0
resolve_timeout = "100ms"
backends = ["127.0.0.1:{dead}", "nobody.invalid:80"]
"""


def panels_of(board):
    for panel in board["panels"]:
        yield panel
        yield from panel.get("panels", [])


def queries_of_dashboard():
    """Pairs of a panel's title and a query."""
    with open(DASHBOARD) as file:
        board = json.load(file)
    return [(p["title"], t["expr"]) for p in panels_of(board) for t in p.get("targets", [])]


def queries_of_rules():
    """Pairs of an alert and its query, a block of lines. promtool checks that the file is YAML."""
    with open(RULES) as file:
        rules = file.read().split("- alert: ")[1:]
    return [
        (rule.split("\n")[0], re.search(r"expr: \|\n((?: {10}.*\n)+)", rule).group(1))
        for rule in rules
    ]


def series_of(text):
    """The exported metrics: name -> the names of its labels."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels = re.match(r"(\w+)(?:{(.*)})? ", line).groups()
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels or ""))
    return found


class Prometheus:
    def __init__(self, admin):
        self.folder = tempfile.TemporaryDirectory()
        configuration = self.folder.name + "/prometheus.yml"
        with open(configuration, "w") as file:
            file.write(CONFIGURATION.format(admin=admin))
        host = own_host()
        self.address = f"{host}:{free_port(host)}"
        self.log = open(self.folder.name + "/log", "w+")
        self.process = subprocess.Popen(
            [
                shutil.which("prometheus"),
                "--config.file=" + configuration,
                "--storage.tsdb.path=" + self.folder.name + "/data",
                "--web.listen-address=" + self.address,
            ],
            stdout=self.log,
            stderr=self.log,
        )

    def ask(self, path, **query):
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def ask_if_there(self, path, **query):
        """None while it does not answer."""
        try:
            return self.ask(path, **query)
        except (urllib.error.URLError, OSError):
            if self.process.poll() is not None:
                self.log.seek(0)
                raise AssertionError("prometheus has ended: " + self.log.read())
            return None

    def value(self, query):
        """The value of the only series; None while there is none, or after a failed scrape."""
        answer = self.ask_if_there("query", query=query)
        result = answer["result"] if answer else []
        if len(result) > 1:
            raise AssertionError(f"{query} has several series: {result}")
        return float(result[0]["value"][1]) if result else None

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        self.folder.cleanup()


class ReadByPrometheus(unittest.TestCase):
    def test_it_has_what_the_relay_reports(self):
        backend = Backend()
        self.addCleanup(backend.close)
        relay = Relay("127.0.0.1:0", backend.address)
        self.addCleanup(relay.stop)
        for _ in range(5):
            with relay.connect() as client:
                self.assertEqual(ask(client, 1000), 1000)
        stays = relay.connect()
        self.addCleanup(stays.close)
        self.assertEqual(ask(stays, 4000), 4000)
        eventually(lambda: relay.status()["active"] == 1, "five connections to end")
        # Bytes can arrive before the relay has counted them.
        eventually(
            lambda: relay.status()["listeners"][0]["to_client"]["bytes"] == 9000,
            "all bytes to be counted",
        )

        prometheus = Prometheus(relay.admin)
        self.addCleanup(prometheus.stop)
        eventually(lambda: prometheus.value("up") == 1, "prometheus to scrape")

        def expect(number, query):
            # A scrape fails if the machine stalls for a second. The next one then succeeds.
            eventually(lambda: prometheus.value(query) == number, f"{query} to be {number}")

        expect(6, "sennit_relay_connections_accepted_total")
        expect(1, "sennit_relay_connections")
        expect(5, 'sennit_relay_connections_ended_total{cause="client_end"}')
        expect(5, "sum(sennit_relay_connections_ended_total)")
        expect(9000, 'sennit_relay_bytes_total{to="client"}')
        expect(48, 'sennit_relay_bytes_total{to="backend"}')
        expect(1, f'sennit_relay_backend_up{{backend="{backend.address}"}}')
        expect(5, "sennit_relay_connection_seconds_count")
        expect(1, "sennit_relay_ready")
        # A histogram's series, and a quantile computed from them.
        expect(5, 'sennit_relay_connect_seconds_bucket{le="+Inf"}')
        p99 = "histogram_quantile(0.99, sennit_relay_connect_seconds_bucket)"
        eventually(lambda: 0 < (prometheus.value(p99) or 0) < 20, "a quantile")

        # Types and help as Prometheus has parsed them.
        metadata = eventually(lambda: prometheus.ask_if_there("metadata"), "metadata")
        relays = {name: of[0] for name, of in metadata.items() if name.startswith("sennit_")}
        self.assertGreater(len(relays), 30)
        for name, of in relays.items():
            self.assertIn(of["type"], ("counter", "gauge", "histogram"), name)
            self.assertEqual(of["type"] == "counter", name.endswith("_total"), name)
            self.assertTrue(of["help"], name)
        self.assertEqual(relays["sennit_relay_connect_seconds"]["type"], "histogram")

        # A rate needs several scrapes.
        load = Load(relay, small=2)
        self.addCleanup(load.stop)
        rate = "rate(sennit_relay_connections_accepted_total[30s])"
        eventually(lambda: (prometheus.value(rate) or 0) > 0.5, "a rate")

        def is_well():
            answer = prometheus.ask_if_there("targets")
            target = answer["activeTargets"][0] if answer else {}
            return target.get("health") == "up" and target.get("lastError") == ""

        eventually(is_well, "a successful scrape")

    def test_the_dashboard_and_the_alerts_ask_for_what_there_is(self):
        backend = Backend()
        self.addCleanup(backend.close)
        dead = socket.socket()
        self.addCleanup(dead.close)
        dead.bind(("127.0.0.1", 0))
        relay = RelayByConfig(
            EVERYTHING.format(
                port=backend.address.rpartition(":")[2], dead=dead.getsockname()[1]
            )
        )
        self.addCleanup(relay.stop)
        exported = series_of(relay.get("/metrics"))
        queries = queries_of_dashboard()
        alerts = queries_of_rules()
        self.assertGreater(len(queries), 30)
        for title, query in queries + alerts:
            # The query without its strings, whose words are not names.
            words = re.sub(r'"[^"]*"', '""', query)
            names = set(re.findall(r"\b(?:sennit_relay|process)_\w+", words))
            self.assertTrue(names, f"{title}: no metric in {query}")
            for name in names:
                self.assertIn(name, exported, f"{title}: {query}")
            # All labels that a selector compares are labels of its metric.
            for name, selector in re.findall(r"(\w+){([^}]*)}", words):
                for label in re.findall(r"(\w+)\s*[=!]", selector):
                    self.assertIn(label, exported[name] | ADDED_LABELS, f"{title}: {query}")
            every = set().union(*(exported[name] for name in names)) | ADDED_LABELS
            for by in re.findall(r"\bby \(([^)]*)\)", words):
                for label in by.split(","):
                    self.assertIn(label.strip(), every, f"{title}: {query}")

        # The manual lists the values that a selector names, such as the causes.
        with open(PACKAGING + "../docs/relay-operation.md") as file:
            manual = file.read()
        for title, query in queries + alerts:
            for label, values in re.findall(r'\b(cause|state)=~?"([^"]*)"', query):
                for value in values.split("|"):
                    self.assertIn(f"`{value}`", manual, f"{title}: {label} in {query}")

        # Prometheus understands the queries, and has an answer for nearly all.
        stays = [relay.connect(0) for _ in range(5)]  # two of them wait
        for client in stays:
            self.addCleanup(client.close)
        prometheus = Prometheus(relay.admin)
        self.addCleanup(prometheus.stop)
        for _ in range(3):
            with relay.connect(1) as refused:
                self.assertEqual(refused.recv(1), b"")
        eventually(lambda: prometheus.value("sennit_relay_queue_connections > 0") == 2, "a queue")
        # A rate needs two scrapes.
        eventually(
            lambda: prometheus.ask("query", query="rate(process_cpu_seconds_total[1m])")["result"],
            "a rate",
        )
        # No connection has ended there, so there is neither a share nor a mean.
        may_be_empty = {
            "How connections ended",
            "Mean wait for a place",
            "Connections that could not be made",
        }
        for title, query in queries:
            query = query.replace("$__rate_interval", "1m")
            query = re.sub(r"\$(instance|listener|group)", ".*", query)
            self.assertNotIn("$", query, title)
            # A gauge has no value after a scrape that took too long, until the next one.
            answer = lambda: prometheus.ask("query", query=query)["result"]
            answer()
            if title not in may_be_empty:
                eventually(answer, f"an answer for {title}: {query}")
        for alert, query in alerts:
            prometheus.ask("query", query=query)

    def test_the_dashboard_can_be_imported(self):
        with open(DASHBOARD) as file:
            board = json.load(file)
        names = [each["name"] for each in board["templating"]["list"]]
        self.assertEqual(names, ["datasource", "instance", "listener", "group"])
        self.assertEqual(board["templating"]["list"][0]["type"], "datasource")
        for key in ("id", "title"):
            all_of_it = [panel[key] for panel in panels_of(board)]
            self.assertEqual(len(all_of_it), len(set(all_of_it)), key)
        taken = set()
        for panel in panels_of(board):
            at = panel["gridPos"]
            self.assertLessEqual(at["x"] + at["w"], 24, panel["title"])
            for x in range(at["x"], at["x"] + at["w"]):
                for y in range(at["y"], at["y"] + at["h"]):
                    self.assertNotIn((x, y), taken, panel["title"])
                    taken.add((x, y))
            # The dashboard works with any data source that the importer chooses.
            for each in [panel, *panel.get("targets", [])]:
                if panel["type"] != "row":
                    self.assertEqual(each["datasource"]["uid"], "${datasource}", panel["title"])

    def test_the_alerts_are_raised(self):
        promtool = shutil.which("promtool")
        checked = subprocess.run(
            [promtool, "check", "rules", RULES], capture_output=True, text=True
        )
        self.assertEqual(checked.returncode, 0, checked.stderr)
        # Series with which each alert has to be raised, and with which none may be.
        listener, group = 'listener="web"', 'group="web"'
        bad = {
            "SennitRelayNoBackend": [(f'group_backends{{{group},state="up"}}', "0x60")],
            "SennitRelayBackendsDown": [(f'group_backends{{{group},state="ejected"}}', "2x60")],
            "SennitRelayNotServed": [
                (f'connections_ended_total{{{listener},cause="no_backend"}}', "0+2x60"),
                (f'connections_ended_total{{{listener},cause="client_end"}}', "0+98x60"),
            ],
            "SennitRelayConnectsSlowly": [
                (f'connect_seconds_bucket{{{listener},le="1.048576"}}', "0+90x60"),
                (f'connect_seconds_bucket{{{listener},le="4.194304"}}', "0+100x60"),
                (f'connect_seconds_bucket{{{listener},le="+Inf"}}', "0+100x60"),
            ],
            "SennitRelayQueueing": [(f"queue_connections{{{group}}}", "1x60")],
            "SennitRelayNearlyFull": [
                (f"connections{{{listener}}}", "95x60"),
                (f"connections_limit{{{listener}}}", "100x60"),
            ],
            "SennitRelayNameDoesNotResolve": [(f"group_resolve_failing{{{group}}}", "1x60")],
            "SennitRelayReloadRejected": [("reload_failures_total", "0x55 1x5")],
            "SennitRelayAcceptingPaused": [("accept_pauses_total", "0x57 3x3")],
            "SennitRelayLosesRecords": [("events_lost_total", "0x55 1x5")],
        }
        good = [
            (f'group_backends{{{group},state="up"}}', "1x60"),
            (f'group_backends{{{group},state="down"}}', "0x60"),
            (f'connections_ended_total{{{listener},cause="no_backend"}}', "0+1x60"),
            (f'connections_ended_total{{{listener},cause="client_end"}}', "0+999x60"),
            (f'connect_seconds_bucket{{{listener},le="0.524288"}}', "0+100x60"),
            (f'connect_seconds_bucket{{{listener},le="+Inf"}}', "0+100x60"),
            (f"queue_connections{{{group}}}", "0x60"),
            (f"connections{{{listener}}}", "95x60"),
            (f"connections_limit{{{listener}}}", "0x60"),
            ("sessions", "95x60"),
            ("sessions_limit", "1000x60"),
            (f"group_resolve_failing{{{group}}}", "0x60"),
            ("reload_failures_total", "4x60"),
            ("accept_pauses_total", "4x60"),
            ("events_lost_total", "4x60"),
            ("access_log_dropped_total", "4x60"),
        ]
        self.assertEqual(set(bad), {alert for alert, _ in queries_of_rules()})

        def test_of(series, query, wanted):
            return {
                "interval": "1m",
                "input_series": [
                    {"series": self.at_an_instance(name), "values": values}
                    for name, values in series
                ],
                "promql_expr_test": [{"expr": query, "eval_time": "60m", "exp_samples": wanted}],
            }

        tests = [
            test_of(
                series,
                f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})',
                [{"labels": "{}", "value": 1}],
            )
            for alert, series in bad.items()
        ]
        tests.append(test_of(good, "count(ALERTS)", []))
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            # Every JSON text is YAML.
            json.dump({"rule_files": [RULES], "evaluation_interval": "1m", "tests": tests}, file)
            file.flush()
            told = subprocess.run(
                [promtool, "test", "rules", file.name], capture_output=True, text=True
            )
        self.assertEqual(told.returncode, 0, told.stdout + told.stderr)

    @staticmethod
    def at_an_instance(series):
        name, _, labels = series.partition("{")
        return f'sennit_relay_{name}{{instance="relay",{labels or "}"}'

    def test_promtool_finds_nothing_to_improve(self):
        backend = Backend()
        self.addCleanup(backend.close)
        relay = Relay("127.0.0.1:0", backend.address)
        self.addCleanup(relay.stop)
        checked = subprocess.run(
            [shutil.which("promtool"), "check", "metrics"],
            input=relay.get("/metrics"),
            capture_output=True,
            text=True,
        )
        self.assertEqual((checked.returncode, checked.stdout, checked.stderr), (0, "", ""))


if __name__ == "__main__":
    if not shutil.which("prometheus"):
        sys.exit("prometheus is not installed; scripts/setup test installs it")
    unittest.main(verbosity=2)
