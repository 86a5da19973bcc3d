#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A real Prometheus reads the relay's metrics, and says by its own API what it has read.

Environment: as traffic.py. Fails without prometheus; scripts/setup test installs it.
"""
import json
import os
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

from traffic import LAUNCHER, Backend, Load, Relay, ask, eventually

CONFIGURATION = """
global:
  scrape_interval: 250ms
  scrape_timeout: 250ms
scrape_configs:
  - job_name: sennit-relay
    static_configs:
      - targets: ["{admin}"]
"""


class Prometheus:
    def __init__(self, admin):
        self.folder = tempfile.TemporaryDirectory()
        configuration = self.folder.name + "/prometheus.yml"
        with open(configuration, "w") as file:
            text = CONFIGURATION.format(admin=admin)
            if LAUNCHER:  # under a sanitizer or an emulator an answer takes longer
                text = text.replace("250ms", "2s")
            file.write(text)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = "127.0.0.1:%d" % probe.getsockname()[1]
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

    def value(self, query):
        """Of the only series; None as long as there is none."""
        try:
            result = self.ask("query", query=query)["result"]
        except (urllib.error.URLError, OSError):
            if self.process.poll() is not None:
                self.log.seek(0)
                raise AssertionError("prometheus has ended: " + self.log.read())
            return None
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
    def test_it_has_what_the_relay_tells(self):
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

        prometheus = Prometheus(relay.admin)
        self.addCleanup(prometheus.stop)
        eventually(lambda: prometheus.value("up") == 1, "prometheus to scrape")
        value = prometheus.value
        self.assertEqual(value("sennit_relay_connections_accepted_total"), 6)
        self.assertEqual(value("sennit_relay_connections"), 1)
        self.assertEqual(value('sennit_relay_connections_ended_total{cause="client_end"}'), 5)
        self.assertEqual(value("sum(sennit_relay_connections_ended_total)"), 5)
        self.assertEqual(value('sennit_relay_bytes_total{to="client"}'), 9000)
        self.assertEqual(value('sennit_relay_bytes_total{to="backend"}'), 48)
        self.assertEqual(value(f'sennit_relay_backend_up{{backend="{backend.address}"}}'), 1)
        self.assertEqual(value("sennit_relay_connection_seconds_count"), 5)
        self.assertEqual(value("sennit_relay_ready"), 1)
        # Each of the histogram's series, and what is reckoned of them.
        self.assertEqual(value('sennit_relay_connect_seconds_bucket{le="+Inf"}'), 5)
        p99 = value("histogram_quantile(0.99, sennit_relay_connect_seconds_bucket)")
        self.assertGreater(p99, 0)
        self.assertLess(p99, 20)

        # Types and help, as Prometheus has understood them.
        metadata = eventually(lambda: prometheus.ask("metadata"), "metadata")
        relays = {name: of[0] for name, of in metadata.items() if name.startswith("sennit_")}
        self.assertGreater(len(relays), 30)
        for name, of in relays.items():
            self.assertIn(of["type"], ("counter", "gauge", "histogram"), name)
            self.assertEqual(of["type"] == "counter", name.endswith("_total"), name)
            self.assertTrue(of["help"], name)
        self.assertEqual(relays["sennit_relay_connect_seconds"]["type"], "histogram")

        # It follows: a rate, which needs several scrapes.
        load = Load(relay, small=2)
        self.addCleanup(load.stop)
        rate = "rate(sennit_relay_connections_accepted_total[30s])"
        eventually(lambda: (value(rate) or 0) > 0.5, "a rate")
        # Nothing was wrong with any scrape.
        target = prometheus.ask("targets")["activeTargets"][0]
        self.assertEqual(target["health"], "up", target)
        self.assertEqual(target["lastError"], "")

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
        sys.exit("prometheus is not installed; scripts/setup test does it")
    unittest.main(verbosity=2)
