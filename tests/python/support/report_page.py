"""The pages that msda-replay writes, as their script draws them, read."""

import base64
import hashlib
import html
import html.parser
import pathlib
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET

import pytest

NODE = shutil.which("node")

VOID = {"meta", "link", "input"}


class Reader(html.parser.HTMLParser):
    """Checks that elements nest, and keeps texts, ids, links, scripts and drawings."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.links, self.texts, self.tags, self.attributes = [], [], [], [], [], set()
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        assert len(named) == len(attributes), self.get_starttag_text()
        self.tags.append(tag)
        self.attributes.update(named)
        if "id" in named:
            self.ids.append(named["id"])
        self.links += [named[name] for name in ("href", "src", "action", "data", "srcset") if name in named]
        if tag not in VOID and not self.get_starttag_text().endswith("/>"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] not in (["style"], ["script"]):
            self.texts.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.texts))


def check_policy(text):
    """The page holds a style, a script, and data that no script can be hidden in; its policy names the first two."""
    policy, style, data, script = re.fullmatch(
        r".*?<meta http-equiv=\"Content-Security-Policy\" content=\"(.*?)\"/>.*?<style>(.*?)</style>.*?</svg>\n<noscript>[^<]*<pre[^<]*</pre></noscript>\n"
        r"<script type=\"application/json\" id=\"data\">([^<]*)</script>\n<script>(.*?)</script>\n</body>\n</html>\n", text, re.S).groups()
    for kind, content in (("style", style), ("script", script)):
        assert f"{kind}-src 'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'" in policy
    assert re.fullmatch(r"[ -~]*", data)


def drawn(path):
    """The page as its script draws it, as HTML."""
    check_policy(path.read_text())
    if NODE is None:
        pytest.skip("no node is installed (Debian: nodejs)")
    return subprocess.run([NODE, pathlib.Path(__file__).with_name("page_script.js"), path], check=True, capture_output=True, text=True).stdout


def read(path):
    text = drawn(path)
    page = Reader(text)
    assert len(page.ids) == len(set(page.ids))
    for link in page.links:
        assert link == "data:," or (link.startswith("#") and link[1:] in page.ids) or re.fullmatch(r"[\w-]+\.html", link), link
    assert (page.tags.count("script"), page.tags.count("style")) == (0, 1)
    assert not [name for name in page.attributes if name.startswith("on") or name == "style"]
    assert "http:" not in text.replace("http://example.com", "") and "https:" not in text
    assert ">-0</text>" not in text  # a place is never -0
    for drawing in re.findall(r"<svg.*?</svg>", text, re.S):
        assert not re.search(r"\b(nan|inf)\b", drawing.split("<title>")[0])
        for element in ET.fromstring(drawing).iter():
            for name in ("d", "x", "y", "cx", "cy", "r", "width", "height", "viewBox"):
                assert not re.search("nan|inf", element.get(name, "")), drawing[:300]
    return page
