#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A real Prometheus scrapes the relay's metrics. Its API says what it has read.

Environment: as for traffic.py. Fails without prometheus; scripts/setup test installs it.
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

from traffic import Backend, Load, Relay, ask, eventually, free_port, own_host

CONFIGURATION = """
global:
  scrape_interval: 1s
  scrape_timeout: 1s
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
            # A scrape fails if the machine stalls for a second. The next one makes up for it.
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
