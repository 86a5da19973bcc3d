#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The admin server's page in a real browser, Chromium without a window, while the relay works: what it
shows is compared with what the relay says, and a screenshot is taken.

The browser is spoken to by its debugging protocol over a pipe: JSON, each message ended by a zero.

Environment: as traffic.py; SENNIT_SCREENSHOT is a file to write the screenshot to (default: in the
build folder), SENNIT_PAGE_SECONDS how long the relay works before it is taken (3; the one in
docs/relay-page.png had 130, `make screenshot`). Fails without chromium; scripts/setup test
installs it.
"""
import base64
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from traffic import BUILD, Backend, Load, Relay, ask, eventually

SCREENSHOT = os.environ.get("SENNIT_SCREENSHOT", BUILD + "/relay-page.png")
SECONDS = float(os.environ.get("SENNIT_PAGE_SECONDS", "3"))


class Browser:
    def __init__(self):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        from_us, self.to = os.pipe()
        self.back, to_us = os.pipe()

        def descriptors():
            # 3 is what the browser reads, 4 what it writes; neither is lost to the other's number.
            a, b = os.dup(from_us), os.dup(to_us)
            while a < 5:
                a = os.dup(a)
            while b < 5:
                b = os.dup(b)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [
                shutil.which("chromium"),
                "--headless=new",
                "--remote-debugging-pipe",
                # Its own, of processes against each other; there is nothing here but our page.
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-extensions",
                "--disable-background-networking",
                "--no-first-run",
                "--no-proxy-server",
                "--hide-scrollbars",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
                "--user-data-dir=" + self.profile.name,
                "about:blank",
            ],
            preexec_fn=descriptors,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(from_us)
        os.close(to_us)
        self.number = 0
        self.unread = b""
        self.session = None
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Runtime.enable")
        self.call("Log.enable")

    def message(self):
        while b"\0" not in self.unread:
            more = os.read(self.back, 1 << 20)
            if not more:
                raise AssertionError("the browser has ended")
            self.unread += more
        text, _, self.unread = self.unread.partition(b"\0")
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def value(self, expression):
        result = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def text(self, element):
        """Empty when there is no such element, as while a page is loading."""
        return self.value(f"document.getElementById({json.dumps(element)})?.innerText ?? ''")

    def complaints(self):
        """What the page itself threw or logged."""
        bad = []
        for event in self.events:
            if event["method"] == "Runtime.exceptionThrown":
                bad.append(event["params"])
            elif event["method"] == "Log.entryAdded":
                if event["params"]["entry"]["level"] in ("warning", "error"):
                    bad.append(event["params"]["entry"])
        return bad

    def screenshot(self, path, width, height, dark, scale=1):
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=False,
        )
        self.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        png = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        with open(path, "wb") as file:
            file.write(png)
        return png

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.back)
        self.profile.cleanup()


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
        # A third one refuses: its port is taken, and nobody listens.
        gone = socket.socket()
        self.addCleanup(gone.close)
        gone.bind(("127.0.0.1", 0))
        self.relay = Relay(
            *("127.0.0.1:0", self.backends[0].address),
            *("127.0.0.1:0", self.backends[1].address),
            *("127.0.0.1:0", "127.0.0.1:%d" % gone.getsockname()[1]),
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

        # The figures, each second anew, against what the relay says.
        now = relay.status()
        active = int(browser.text("active").split()[0].replace(",", ""))
        self.assertGreaterEqual(active, 48)
        self.assertLess(abs(active - now["active"]), 20)
        self.assertIn("/s", browser.text("to-client"))
        self.assertRegex(browser.text("to-client"), r"^\d+(\.\d+)?\s(KiB|MiB|GiB)/s$")
        self.assertRegex(browser.text("connect"), r"^\d+(\.\d+)?\s(µs|ms|s)$")
        before = browser.text("to-client-note")
        eventually(lambda: browser.text("to-client-note") != before, "figures to change")

        listeners = rows(browser, "listeners")
        self.assertEqual([row[1] for row in listeners], relay.listens)
        self.assertGreater(int(listeners[0][4].replace(",", "")), 40)
        backends = rows(browser, "backends")
        self.assertEqual([row[0] for row in backends], [b["address"] for b in now["backends"]])
        self.assertTrue(all(row[2] == "up" for row in backends[:2]), backends)
        self.assertEqual(backends[2][9], "3")
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

        png = browser.screenshot(SCREENSHOT, 1240, 1130, dark=False)
        self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(struct.unpack("!II", png[16:24]), (1240, 1130))
        # An empty page of this size has some 10 KB.
        self.assertGreater(len(png), 50000)
        dark = browser.screenshot(BUILD + "/relay-page-dark.png", 1240, 1130, dark=True)
        self.assertNotEqual(dark, png)
        # On a telephone nothing is wider than the screen.
        browser.screenshot(BUILD + "/relay-page-narrow.png", 390, 2400, dark=False)
        self.assertLessEqual(browser.value("document.documentElement.scrollWidth"), 390)

        # Text, where there is no picture: names for charts, captions, a language.
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
        # A poll that was under way shows what it has got, however late; then nothing comes for longer
        # than two polls take.
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
        eventually(lambda: browser.text("about") != shown, "it to go on")

    def test_it_says_that_the_relay_drains_and_that_it_has_gone(self):
        relay, browser = self.relay, self.browser
        stays = relay.connect()
        self.addCleanup(stays.close)
        browser.call("Page.navigate", url=f"http://{relay.admin}/")
        eventually(lambda: browser.text("ready").startswith("ready"), "the page")
        relay.process.terminate()
        eventually(lambda: browser.text("ready") == "draining", "the page to say so")
        self.assertEqual(browser.text("told"), "The relay is draining")
        stays.close()
        eventually(lambda: browser.text("ready") == "no answer", "the page to say so")
        self.assertIn("does not answer", browser.text("trouble"))


if __name__ == "__main__":
    if not shutil.which("chromium"):
        sys.exit("chromium is not installed; scripts/setup test does it")
    unittest.main(verbosity=2)
