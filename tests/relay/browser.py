# SPDX-License-Identifier: MIT
"""
Headless Chromium, for tests of what it shows: it loads pages, evaluates expressions in them and
takes screenshots. The test drives it by its debugging protocol over a pipe: JSON, with a zero byte
after each message.

It resolves no names and connects only to 127.0.0.1. It writes only to one folder, which close()
removes. Its processes are one group, and close() leaves none of them.
"""
import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

from traffic import PATIENCE


class Browser:
    def __init__(self, *options):
        # Not in the build folder, whose path may be too long for the sockets in it.
        self.folder = tempfile.TemporaryDirectory(prefix="sennit-browser-", ignore_cleanup_errors=True)
        from_us, self.to = os.pipe()
        self.back, to_us = os.pipe()

        def descriptors():
            # The browser reads from 3 and writes to 4. Copies above both, so that neither dup2
            # closes the other's.
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
                # Its sandbox protects its processes from each other, which is not needed for the
                # test's own pages.
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-extensions",
                "--disable-background-networking",
                "--no-first-run",
                "--no-proxy-server",
                "--hide-scrollbars",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
                "--user-data-dir=" + self.folder.name + "/profile",
                *options,
                "about:blank",
            ],
            preexec_fn=descriptors,
            close_fds=False,
            start_new_session=True,
            # The folder for its sockets and the like, which it leaves behind when it is killed.
            env={**os.environ, "TMPDIR": self.folder.name},
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
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
                "sessionId"
            ]
            self.call("Page.enable")
            self.call("Runtime.enable")
            self.call("Log.enable")
        except BaseException:
            self.close()
            raise

    def message(self):
        while b"\0" not in self.unread:
            # On a busy machine it takes long to start.
            if not select.select([self.back], [], [], 2 * PATIENCE)[0]:
                raise AssertionError("waited too long for the browser")
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
        """The element's text; empty if there is no such element, as while a page is loading."""
        return self.value(f"document.getElementById({json.dumps(element)})?.innerText ?? ''")

    def complaints(self):
        """What the page threw or logged."""
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
        """May be called again."""
        if self.to is None:
            return
        # Does not use terminate(), which would reap a process that has ended.
        os.kill(self.process.pid, signal.SIGTERM)
        until = time.monotonic() + 20
        while time.monotonic() < until and not os.waitid(
            os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG
        ):
            time.sleep(0.02)
        # Kills the helpers that are left, or all processes. The browser was not reaped, so the id
        # is still its own.
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.to)
        os.close(self.back)
        self.to = None
        self.folder.cleanup()
