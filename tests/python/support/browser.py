"""A headless Chromium, spoken to through a pipe in the DevTools protocol: no package beyond the browser is needed."""

import base64
import json
import os
import pathlib
import shutil
import subprocess

NAMES = ("chromium", "chromium-headless-shell", "chrome-headless-shell", "chromium-browser", "google-chrome")
PROGRAM = next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    def __init__(self, folder):
        self.theirs_in, self.ours_out = os.pipe()
        self.ours_in, self.theirs_out = os.pipe()
        arguments = [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--disable-background-networking", f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank"]

        # The browser reads commands from descriptor 3, and writes answers to 4.
        def place():
            read, write = os.dup(self.theirs_in), os.dup(self.theirs_out)
            low = [os.dup(read) for _ in range(8)]  # so that neither is 3 or 4
            read, write = os.dup(read), os.dup(write)
            for entry in low:
                os.close(entry)
            os.dup2(read, 3)
            os.dup2(write, 4)

        self.process = subprocess.Popen(arguments, preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(self.theirs_in)
        os.close(self.theirs_out)
        self.rest, self.number, self.events = b"", 0, []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if not method.startswith("Target."):
            message["sessionId"] = self.session
        os.write(self.ours_out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def receive(self):
        while b"\0" not in self.rest:
            part = os.read(self.ours_in, 1 << 20)
            assert part, "the browser has ended"
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def open(self, page, width=1200, height=900, dark=False, media="screen"):
        """Loads a page; returns what it complained of, and the addresses that it asked for."""
        self.events.clear()
        scheme = "dark" if dark else "light"
        self.ask("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.ask("Page.navigate", url=pathlib.Path(page).resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        complaints = [event["params"] for event in self.events if event["method"] in kinds]
        asked = [event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return complaints, asked

    def evaluate(self, script):
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" and len(key) == 1 else "")

    def picture(self, path, whole=True):
        """A screenshot of the page, as a PNG."""
        clip = {}
        if whole:
            size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"clip": {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16000), "scale": 1}, "captureBeyondViewport": True}
        pathlib.Path(path).write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png", **clip)["data"]))

    def close(self):
        self.process.terminate()
        self.process.wait()
        os.close(self.ours_in)
        os.close(self.ours_out)
