#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The admin server's page in a real browser, headless Chromium, while the relay is busy. What the page
shows is compared with what the relay reports, and a screenshot is taken.

Environment: as for traffic.py. SENNIT_SCREENSHOT is the file to write the screenshot to (default:
in the build folder). SENNIT_PAGE_SECONDS is how long the relay is busy before it is taken (3; 130
for docs/relay-page.png, `make screenshot`). Fails without chromium; scripts/setup test installs it.
"""
import os
import re
import shutil
import socket
import struct
import sys
import time
import unittest

from browser import Browser
from traffic import BUILD, Backend, Load, RelayByConfig, ask, eventually

SCREENSHOT = os.environ.get("SENNIT_SCREENSHOT", BUILD + "/relay-page.png")
# The drain time is longer than a busy browser needs to notice it.
CONFIGURATION = """
admin = "127.0.0.1:0"
drain = "60s"
listeners.web = {{ address = "127.0.0.1:0", group = "web" }}
listeners.files = {{ address = "127.0.0.1:0", group = "files" }}
listeners.mail = {{ address = "127.0.0.1:0", group = "mail" }}
groups.web.backends = ["{backends[0]}"]
[groups.files]
resolve_timeout = "10m"
backends = [{{ address = "{backends[1]}", bandwidth = {{ to_client = "4MiB", burst = "1MiB" }} }}]
[groups.mail]
backends = ["{backends[2]}", "{backends[3]}"]
resolve_timeout = "100ms"
"""
SECONDS = float(os.environ.get("SENNIT_PAGE_SECONDS", "3"))


def rows(browser, element):
    return browser.value(
        f"[...document.querySelectorAll('#{element} tr')]"
        ".map((row) => [...row.children].map((cell) => cell.innerText))"
    )


class InABrowser(unittest.TestCase):
    def setUp(self):
        self.backends = [Backend(), Backend()]
        for backend in self.backends:
            self.addCleanup(backend.close)
        # A third one refuses connections: its port is bound, but does not listen.
        gone = socket.socket()
        self.addCleanup(gone.close)
        gone.bind(("127.0.0.1", 0))
        # The second one is given by a name in /etc/hosts, and has a bandwidth limit.
        # The name of the fourth does not resolve.
        port = self.backends[1].address.rpartition(":")[2]
        self.relay = RelayByConfig(
            CONFIGURATION.format(
                backends=[
                    self.backends[0].address,
                    "localhost:" + port,
                    "127.0.0.1:%d" % gone.getsockname()[1],
                    "nobody.invalid:80",
                ]
            )
        )
        self.addCleanup(self.relay.stop)
        self.browser = Browser()
        self.addCleanup(self.browser.close)

    def test_it_shows_what_the_relay_does(self):
        relay, browser = self.relay, self.browser
        for load in (
            Load(relay, 0, idle=40, small=3, large=1, size=4 << 20),
            Load(relay, 1, idle=8, small=1, large=1, size=1 << 20),
        ):
            self.addCleanup(load.stop)
        for _ in range(3):
            with relay.connect(2) as refused:
                self.assertEqual(refused.recv(1), b"")

        for _ in range(2):
            with relay.connect(1) as reset:
                ask(reset, 10)
                reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        browser.call("Page.navigate", url=f"http://{relay.admin}/")
        eventually(
            lambda: browser.value("document.readyState") == "complete"
            and browser.value("typeof history === 'object' && document.title") is not None
            and browser.text("ready").startswith("ready"),
            "the page to show the relay",
        )
        time.sleep(SECONDS)  # for the charts to have something in them
        eventually(
            lambda: browser.value("document.querySelectorAll('#chart-throughput .one').length"),
            "a line in the chart",
        )
        # Looked up when the relay starts, and shown a second later.
        eventually(
            lambda: "look-up" in rows(browser, "backends")[3][0]
            and "\n" in rows(browser, "listeners")[1][7],
            "names and limits to have had an effect",
        )

        # The figures, which change each second, against what the relay reports.
        now = relay.status()
        active = int(browser.text("active").split()[0].replace(",", ""))
        self.assertGreaterEqual(active, 48)
        self.assertLess(abs(active - now["active"]), 20)
        def matches(element, pattern):
            return eventually(
                lambda: re.search(pattern, browser.text(element)), f"{element} to be {pattern}"
            )

        # A busy machine may move nothing for a second.
        matches("to-client", r"^\d+(\.\d+)?\s(KiB|MiB|GiB)/s$")
        matches("connect", r"^\d+(\.\d+)?\s(µs|ms|s)$")
        matches("held-back", r"^with \d+ held back$")
        before = browser.text("to-client-note")
        eventually(lambda: browser.text("to-client-note") != before, "figures to change")

        listeners = rows(browser, "listeners")
        self.assertEqual([row[1] for row in listeners], relay.listens)
        self.assertGreater(int(listeners[0][4].replace(",", "")), 40)
        backends = rows(browser, "backends")
        names = [row[0].split("\n") for row in backends]
        self.assertEqual([name[0] for name in names], [b["address"] for b in now["backends"]])
        self.assertTrue(all(row[2] == "up" for row in backends[:2]), backends)
        self.assertEqual(backends[2][10], "3")

        # The addresses behind the names.
        self.assertEqual([b["named"] for b in now["backends"]], [False, True, False, True])
        self.assertEqual(now["backends"][0]["resolved"], [self.backends[0].address])
        self.assertIn(self.backends[1].address, now["backends"][1]["resolved"])
        self.assertEqual(names[1][1:], [", ".join(now["backends"][1]["resolved"])])
        self.assertEqual((len(names[0]), len(names[2])), (1, 1))
        self.assertRegex(names[3][1], r"^does not resolve; \d+ look-ups? failed$")
        self.assertEqual(backends[3][2], "down")
        self.assertTrue(now["backends"][3]["resolve_failing"])

        # Which rows a bandwidth limit has held back, and which never were.
        limited = [(listeners, 7, [1]), (backends, 8, [1])]
        for table, column, those in limited:
            for i, row in enumerate(table):
                wanted = r"^\d+\nfor \d.*s$" if i in those else r"^–$"
                self.assertRegex(row[column], wanted)
        latency = rows(browser, "latency")
        self.assertEqual(
            [row[0] for row in latency],
            ["connecting to a backend", "backend's first byte", "whole connection"],
        )
        for row in latency:
            for cell in row[1:5]:
                self.assertRegex(cell, r"^\d+(\.\d+)? (µs|ms|s)$", row)
        ended = {row[0]: row[2] for row in rows(browser, "ended")}
        self.assertEqual(ended["connect failed"], "3")
        self.assertEqual(ended["client reset"], "2")
        self.assertGreater(int(ended["client end"].replace(",", "")), 0)

        png = browser.screenshot(SCREENSHOT, 1240, 1240, dark=False)
        self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(struct.unpack("!II", png[16:24]), (1240, 1240))
        # A screenshot of an empty page of this size has some 10 KB.
        self.assertGreater(len(png), 50000)
        dark = browser.screenshot(BUILD + "/relay-page-dark.png", 1240, 1240, dark=True)
        self.assertNotEqual(dark, png)
        # On a phone nothing is wider than the screen.
        browser.screenshot(BUILD + "/relay-page-narrow.png", 390, 2400, dark=False)
        self.assertLessEqual(browser.value("document.documentElement.scrollWidth"), 390)

        # Accessibility: labels for charts, captions for tables, a language.
        self.assertRegex(
            browser.value("document.getElementById('chart-throughput').getAttribute('aria-label')"),
            r"now .*/s to clients",
        )
        self.assertEqual(browser.value("document.documentElement.lang"), "en")
        self.assertEqual(
            browser.value("[...document.querySelectorAll('table')].every((t) => t.caption)"), True
        )
        self.assertEqual(browser.complaints(), [])

    def test_it_pauses_and_goes_on(self):
        relay, browser = self.relay, self.browser
        browser.call("Page.navigate", url=f"http://{relay.admin}/")
        eventually(lambda: browser.text("ready").startswith("ready"), "the page")
        press = "document.getElementById('pause').click()"
        browser.value(press)
        # A poll that was under way may still change the page, however late. After that it stays
        # unchanged for longer than two polls take.
        shown, changes, since = browser.text("about"), 0, time.monotonic()
        while time.monotonic() - since < 2.5:
            time.sleep(0.1)
            now = browser.text("about")
            if now != shown:
                shown, changes, since = now, changes + 1, time.monotonic()
            self.assertLessEqual(changes, 1)
        self.assertEqual(
            browser.value("document.getElementById('pause').getAttribute('aria-pressed')"), "true"
        )
        browser.value(press)
        eventually(lambda: browser.text("about") != shown, "the page to resume")

    def test_it_says_that_the_relay_drains_and_that_it_has_gone(self):
        relay, browser = self.relay, self.browser
        stays = relay.connect()
        self.addCleanup(stays.close)
        browser.call("Page.navigate", url=f"http://{relay.admin}/")
        eventually(lambda: browser.text("ready").startswith("ready"), "the page")
        relay.process.terminate()
        eventually(lambda: browser.text("ready") == "draining", "the page to show the drain")
        self.assertEqual(browser.text("told"), "The relay is draining")
        stays.close()
        eventually(lambda: browser.text("ready") == "no answer", "the page to show the end")
        self.assertIn("does not answer", browser.text("trouble"))


if __name__ == "__main__":
    if not shutil.which("chromium"):
        sys.exit("chromium is not installed; scripts/setup test installs it")
    unittest.main(verbosity=2)
