#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Labels: gate
"""
The admin server's page in a real browser, headless Chromium, while the relay is busy. The test
compares what the page shows with what the relay reports, and takes a screenshot.

Environment: as for traffic.py. SENNIT_SCREENSHOT is the file to write the screenshot to (default:
in the build folder). SENNIT_PAGE_SECONDS is how long the relay is busy before the screenshot (3;
130 for docs/relay-page.png, `make screenshot`). Fails without chromium; scripts/setup test installs
it.
"""
import json
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
retries = 0
backends = ["{backends[2]}", "{backends[3]}"]
resolve_timeout = "100ms"
"""
SECONDS = float(os.environ.get("SENNIT_PAGE_SECONDS", "3"))


# Gives the page an answer like the last one, but six seconds later and with 200 backends.
MANY = """
function give({failures = 0, more = 0}) {
    const next = structuredClone(newest), like = next.backends[0];
    next.time_ms += 6000; next.uptime_ms += 6000;
    next.groups = [{...next.groups[0], group: "waits", queued: 2, queue_limit: 10}];
    next.backends = Array.from({length: 200}, (_, n) => ({...like, address: "b" + n, route: "many",
        state: "up", failures: 0, last_error: "", endpoints: []}));
    const set = (n, what) => Object.assign(next.backends[n], what);
    set(150, {state: "down", last_error: "Connection refused"});
    set(170, {state: "ejected"});
    set(120, {failures: 7 + failures});
    set(110, {route: "waits"});
    set(90, {state: "drained", weight: 0});
    if (more) set(3, {state: "down"});
    const addresses = Array.from({length: 100}, (_, n) => ({...like, endpoints: undefined,
        address: "10.0.0." + n + ":80", state: n % 44 === 33 ? "down" : "up", last_error: ""}));
    set(7, {named: true, endpoints: addresses, resolved: addresses.map((each) => each.address)});
    show(next);
}
"""


def backends_of(browser):
    """The rows of the backends by their addresses."""
    return {row[0].split("\n")[0]: row for row in rows(browser, "backends")}


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
        # A third backend refuses connections: its port is bound, but does not listen.
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
        # Narrow windows leave columns out.
        self.browser.call(
            "Emulation.setDeviceMetricsOverride",
            width=1240,
            height=1000,
            deviceScaleFactor=1,
            mobile=False,
        )

    def test_it_shows_what_the_relay_does(self):
        relay, browser = self.relay, self.browser
        for load in (
            Load(relay, 0, idle=40, small=3, large=1, size=4 << 20),
            Load(relay, 1, idle=8, small=1, large=1, size=1 << 20),
        ):
            self.addCleanup(load.stop)
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
        time.sleep(SECONDS)  # so that the charts have data
        # These connections fail in the last minute that the page has seen.
        for _ in range(3):
            with relay.connect(2) as refused:
                self.assertEqual(refused.recv(1), b"")
        eventually(
            lambda: browser.value("document.querySelectorAll('#chart-throughput .one').length"),
            "a line in the chart",
        )
        # The names are looked up when the relay starts, and shown a second later.
        eventually(
            lambda: "lookup" in backends_of(browser)["nobody.invalid:80"][0]
            and "\n" in rows(browser, "listeners")[1][7],
            "names and limits to have had an effect",
        )

        # Compares the figures, which change each second, with what the relay reports.
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
        matches("held-back", r"^\d+ held back$")
        before = browser.text("to-client-note")
        eventually(lambda: browser.text("to-client-note") != before, "figures to change")

        listeners = rows(browser, "listeners")
        self.assertEqual([row[1] for row in listeners], relay.listens)
        self.assertGreater(int(listeners[0][4].replace(",", "")), 40)
        # Backends in trouble come first; here they are in the order of the configuration.
        order = [row[0].split("\n")[0] for row in rows(browser, "backends")]
        configured = [b["address"] for b in now["backends"]]
        self.assertEqual(sorted(order), sorted(configured))
        self.assertEqual(set(order[:2]), set(configured[2:]))
        shown = backends_of(browser)
        backends = [shown[address] for address in configured]
        names = [row[0].split("\n") for row in backends]
        self.assertTrue(all(row[2] == "not checked" for row in backends[:2]), backends)
        self.assertEqual(backends[2][10], "3")

        # The addresses behind the names.
        self.assertEqual([b["named"] for b in now["backends"]], [False, True, False, True])
        self.assertEqual(now["backends"][0]["resolved"], [self.backends[0].address])
        self.assertIn(self.backends[1].address, now["backends"][1]["resolved"])
        addresses = now["backends"][1]["resolved"]
        if len(addresses) == 1:
            self.assertEqual(names[1][1], addresses[0])
        else:
            self.assertEqual(names[1][1], f"show {len(addresses)} addresses")
        self.assertEqual((len(names[0]), len(names[2])), (1, 1))
        self.assertRegex(names[3][1], r"^does not resolve; \d+ lookups? failed$")
        self.assertEqual(backends[3][2], "down\ndoes not resolve")
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

        png = browser.screenshot(SCREENSHOT, 1240, 1000, dark=False)
        self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(struct.unpack("!II", png[16:24]), (1240, 1000))
        # A screenshot of an empty page of this size has some 10 KB.
        self.assertGreater(len(png), 50000)
        dark = browser.screenshot(BUILD + "/relay-page-dark.png", 1240, 1000, dark=True)
        self.assertNotEqual(dark, png)
        # On a phone nothing is wider than the screen.
        browser.screenshot(BUILD + "/relay-page-narrow.png", 375, 2400, dark=False)
        self.assertLessEqual(browser.value("document.documentElement.scrollWidth"), 375)

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
        eventually(lambda: browser.text("ready") == "not ready", "the page to show the drain")
        self.assertEqual(browser.text("told"), "The relay is not ready")
        stays.close()
        eventually(lambda: browser.text("ready") == "no answer", "the page to show the end")
        self.assertIn("does not answer", browser.text("trouble"))
        self.assertIn("The figures are from", browser.text("trouble"))
        # The page marks its figures as old.
        self.assertEqual(browser.value("document.getElementById('main').className"), "stale")

    def test_it_shows_what_was_before_it_was_opened(self):
        relay, browser = self.relay, self.browser
        with relay.connect() as client:
            self.assertEqual(ask(client, 1 << 20), 1 << 20)

            def kept():
                told = json.loads(relay.get("/history"))
                # The transfer lies between two samples.
                return len(told["uptime_ms"]) > 2 and told["to_client"][-1] >= 1 << 20 and told

            told = eventually(kept, "samples")
            self.assertEqual(len({len(column) for column in told.values()}), 1)
            self.assertEqual(told["uptime_ms"], sorted(set(told["uptime_ms"])))
            self.assertEqual(told["active"][-1], 1)
            since = told["uptime_ms"][-2]
            later = json.loads(relay.get(f"/history?since={since}"))["uptime_ms"]
            self.assertGreaterEqual(later[0], told["uptime_ms"][-1])

            browser.call("Page.navigate", url=f"http://{relay.admin}/")
            eventually(lambda: browser.text("ready").startswith("ready"), "the page")
            self.assertEqual(browser.value("samples[0].uptime_ms"), told["uptime_ms"][0])
            times = browser.value("samples.map((each) => each.uptime_ms)")
            self.assertEqual(times, sorted(set(times)))
            # The bytes of the transfer are in the chart, although none have come since the page was
            # opened.
            self.assertRegex(
                browser.value("document.querySelector('.plot > .top').innerText"),
                r"^peak \d.* [KM]iB/s$",
            )
            for minutes in ("60", "5"):
                browser.value(f"document.querySelector('[data-minutes=\"{minutes}\"]').click()")
                self.assertEqual(
                    browser.value(
                        "[...document.querySelectorAll('[data-minutes][aria-pressed=true]')]"
                        ".map((each) => each.dataset.minutes)"
                    ),
                    [minutes],
                )
            # The figures of another process cannot be compared with those on the page, even if it
            # has been up for longer. Here it is the same process, so the whole history is shown
            # again.
            browser.value("document.getElementById('pause').click()")
            again = browser.value(
                """(async () => {
                    samples.length = 1;
                    const later = { ...newest, uptime_ms: newest.uptime_ms + 60000 };
                    await catchUp({ ...later, time_ms: later.time_ms + 60000 });
                    const missed = samples.length, kept = newest !== null;
                    await catchUp(later);
                    return [missed > 1, kept, before, newest, marks.length, samples[0].uptime_ms];
                })()"""
            )
            self.assertEqual(again, [True, True, None, None, 0, told["uptime_ms"][0]])
        self.assertEqual(browser.complaints(), [])

    def test_it_stays_readable_with_many_backends(self):
        """The page is given an answer with 200 backends, one of them a name of 100 addresses."""
        relay, browser = self.relay, self.browser
        browser.call("Page.navigate", url=f"http://{relay.admin}/")
        eventually(lambda: browser.text("ready").startswith("ready"), "the page")
        browser.value("document.getElementById('pause').click()")
        browser.value(MANY)

        def names():
            return [row[0].split("\n")[0] for row in rows(browser, "backends")]

        def press(selector):
            browser.value(f"document.querySelector({json.dumps(selector)}).click()")

        browser.value("give({})")
        self.assertEqual(len(names()), 50)
        self.assertEqual(browser.value("document.querySelectorAll('#strip > i').length"), 200)
        # First those that are down, ejected, failing, waiting, partly down and drained; then the
        # rest in the order of the answer.
        browser.value("give({failures: 3})")
        self.assertEqual(
            names()[:8],
            ["b150", "b170", "b120", "b110", "b7", "b90", "b0", "b1"],
        )
        states = [row[2].split("\n") for row in rows(browser, "backends")[:5]]
        self.assertEqual(states[0], ["down", "Connection refused"])
        self.assertEqual(states[1][0], "ejected")
        self.assertEqual(states[2], ["up", "3 connects failed in the last minute"])
        self.assertEqual(states[3], ["up", "2 clients wait for this route"])
        self.assertEqual(states[4], ["up", "2 of 100 addresses down"])
        self.assertEqual(browser.text("ready"), "ready, 2 backends down, 3 more in trouble")
        self.assertEqual(
            browser.value("document.getElementById('strip').getAttribute('aria-label')"),
            "200 backends, 5 of them in trouble",
        )
        # The addresses of the name; those in trouble come first.
        press("#backends button")
        self.assertEqual(names()[4:8], ["b7", "10.0.0.33:80", "10.0.0.77:80", "10.0.0.0:80"])
        self.assertEqual(len(names()), 150)
        self.assertEqual(
            browser.value("document.querySelector('#backends button').ariaExpanded"), "true"
        )
        # Rows keep their identity and the focus when others move before them.
        browser.value("document.querySelector('#backends button').focus()")
        browser.value("const kept = document.getElementById('backends').rows[4]; 0")
        browser.value("give({failures: 3, more: 1})")
        self.assertEqual(names()[:4], ["b3", "b150", "b170", "b120"])
        self.assertEqual(browser.value("[...kept.parentNode.children].indexOf(kept)"), 5)
        self.assertEqual(browser.value("document.activeElement.innerText"), "hide 100 addresses")
        press("#backends button")
        press("#all")
        self.assertEqual(len(names()), 200)
        press("[data-kind='trouble']")
        self.assertEqual(len(names()), 6)
        press("[data-kind='']")
        find = "document.getElementById('find')"
        browser.value(f"{find}.value = 'B19'; {find}.dispatchEvent(new Event('input'))")
        self.assertEqual(names(), ["b19"] + [f"b{n}" for n in range(190, 200)])
        browser.value(f"{find}.value = '10.0.0.33'; {find}.dispatchEvent(new Event('input'))")
        self.assertEqual(names(), ["b7"])
        browser.value(f"{find}.value = 'nothing'; {find}.dispatchEvent(new Event('input'))")
        self.assertEqual(names(), ["No backend fits."])
        browser.value(f"{find}.value = ''; {find}.dispatchEvent(new Event('input'))")
        browser.screenshot(BUILD + "/relay-page-many.png", 375, 1500, dark=True)
        self.assertLessEqual(browser.value("document.documentElement.scrollWidth"), 375)
        self.assertEqual(browser.complaints(), [])


if __name__ == "__main__":
    if not shutil.which("chromium"):
        sys.exit("chromium is not installed; scripts/setup test installs it")
    unittest.main(verbosity=2)
