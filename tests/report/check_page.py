# SPDX-License-Identifier: Apache-2.0
"""Checks a report's HTML: well-formed, a single page, loads nothing, runs nothing.

check_page.py FILE...: prints what is wrong, exit code 1 if anything is.
"""
import html.parser
import re
import sys

VOID = {"meta", "br", "img", "link", "input", "hr"}
# Tags of the page; any other comes from injected text.
KNOWN = {"html", "head", "meta", "title", "style", "body", "svg", "defs", "pattern", "path", "rect", "line", "div", "span", "b", "i", "p", "h1", "h3",
         "h2", "header", "main", "section", "article", "table", "tr", "th", "td", "a", "dl", "dt", "dd", "ul", "li", "footer"}
# Attributes that make a browser fetch or run something.
LOADS = {"src", "srcset", "data", "action", "formaction", "poster", "background", "ping", "manifest", "xlink:href"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = []
        self.wrong = []
        self.ids = set()
        self.links = set()

    def error_at(self, text):
        self.wrong.append(f"line {self.getpos()[0]}: {text}")

    def handle_starttag(self, tag, attributes):
        if tag not in KNOWN:
            self.error_at(f"<{tag}> does not belong here")
        names = [name for name, _ in attributes]
        if len(names) != len(set(names)):
            self.error_at(f"<{tag}> has an attribute twice")
        for name, value in attributes:
            if name in LOADS or name.startswith("on"):
                self.error_at(f"<{tag} {name}>")
            if name == "id":
                if value in self.ids:
                    self.error_at(f"id {value} twice")
                self.ids.add(value)
            if name == "href":
                if not value.startswith("#"):
                    self.error_at(f"a link to {value}")
                self.links.add(value[1:])
            if name == "style" and ("url(" in value or "@import" in value):
                self.error_at(f"a style that loads: {value}")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            self.error_at(f"</{tag}> closes {self.open[-1:]}")
        elif self.open:
            self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            for found in re.findall(r"url\(([^)]*)\)|@import", data):
                if found != "#hatch":
                    self.error_at(f"the style loads {found}")


def check(path):
    with open(path, encoding="utf-8", errors="strict") as file:
        text = file.read()
    page = Page()
    page.feed(text)
    page.close()
    if page.open:
        page.wrong.append(f"not closed: {page.open}")
    if page.links - page.ids:
        page.wrong.append(f"broken links: {sorted(page.links - page.ids)}")
    if not text.startswith("<!doctype html>"):
        page.wrong.append("missing doctype")
    for bad in ("http:", "https:", "<script", "javascript:", "src="):
        if bad in text.lower():
            page.wrong.append(f"contains {bad}")
    if "default-src 'none'" not in text:
        page.wrong.append("no Content-Security-Policy against loading")
    if re.search(r"\b(nan|inf)\b", re.sub(r"<style>.*?</style>|>[^<]*<", "><", text, flags=re.S), flags=re.I):
        page.wrong.append("NaN or infinity is drawn")
    return page.wrong


failed = False
for name in sys.argv[1:]:
    for sentence in check(name):
        print(f"{name}: {sentence}")
        failed = True
sys.exit(failed)
