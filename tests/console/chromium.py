"""A person with a real browser in the console of a running gate: logs in, reads every page, finds the held call, logs out.

Usage: chromium.py CONSOLE-URL TOKEN-FILE AXE.js. Prints one JSON object: the titles of the pages of each visit, and every fault: a
message of the browser, a request to another origin, a page wider than the window, a violation that axe-core found.
"""

import json
import shutil
import sys
from urllib.parse import urlsplit

from playwright.sync_api import sync_playwright

WIDTHS = (1280, 390)
PAGES = (
    "",
    "/approvals",
    "/runs",
    "/calls",
    "/alerts",
    "/health",
    "/trust",
    "/patterns",
    "/orders",
    "/orders/new",
    "/policy",
    "/policy/observed",
    "/evidence",
    "/custody",
)


class Visit:
    """One browser window, from the login to the logout."""

    def __init__(self, browser, url, token, faults, **options):
        self.url, self.token, self.faults, self.titles, self.axe = url, token, faults, [], None
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.faults.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        self.page.on("request", self.requested)

    def requested(self, request):
        if urlsplit(request.url)[:2] != urlsplit(self.url)[:2]:
            self.faults.append(f"request to {request.url}")

    def look(self):
        """Notes the page and what is wrong with it."""
        page = self.page
        page.wait_for_load_state()
        self.titles.append(page.title())
        where = urlsplit(page.url).path
        wide = page.locator("html").evaluate("e => e.scrollWidth > e.clientWidth") if self.axe else False
        if wide:
            self.faults.append(f"{where}: wider than the window")
        if self.axe:
            page.add_script_tag(content=self.axe)
            for found in page.evaluate("axe.run()")["violations"]:
                nodes = [node["html"] for node in found["nodes"]]
                self.faults.append(f"{where}: {found['id']}: {nodes}")

    def copy(self):
        """CON-017: what a button copies is what the page shows."""
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.page.goto(self.url + "/runs")
        self.page.locator("main table a").first.click()
        button = self.page.locator("button.copy").first
        shown = button.evaluate("b => b.previousElementSibling.textContent")
        button.click()
        self.page.locator("button.copy", has_text="copied").wait_for()
        copied = self.page.evaluate("navigator.clipboard.readText()")
        if copied != shown:
            self.faults.append(f"copied {copied!r} of {shown!r}")

    def log_in(self):
        self.page.goto(self.url)
        self.look()
        # By keyboard alone: the field has the focus, once the browser has given it.
        self.page.locator("#token:focus").wait_for()
        self.page.keyboard.type(self.token)
        self.page.keyboard.press("Enter")
        self.page.wait_for_url(self.url)

    def read(self):
        for path in PAGES:
            self.page.goto(self.url + path)
            self.look()
        for path in ("/approvals", "/runs", "/calls", "/policy"):
            self.page.goto(self.url + path)
            self.page.locator("main table a").first.click()
            self.look()
        self.page.get_by_role("link", name="Test it on recorded decisions").click()
        self.look()
        self.page.goto(self.url + "/runs")
        run = self.page.locator("main table a").first.get_attribute("href").split("/")[-1]
        self.page.goto(self.url + "/evidence")
        self.page.get_by_label("Id of the run").first.fill(run)
        self.page.get_by_role("button", name="Verify the run").click()
        self.look()

    def log_out(self):
        self.page.goto(self.url + "/logout")
        self.look()
        self.page.get_by_role("button", name="Log out").click()
        self.page.wait_for_url(self.url + "/login")
        self.page.goto(self.url + "/runs")
        self.look()
        self.context.close()


def main():
    url, token_file, axe_file = sys.argv[1:]
    with open(token_file, encoding="utf-8") as file:
        token = file.read().strip()
    with open(axe_file, encoding="utf-8") as file:
        axe = file.read()
    faults, visits = [], {}
    with sync_playwright() as playwright:
        # The machine's: the library would fetch a browser of its own.
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        plain = {"with scripts": {}, "without scripts": {"java_script_enabled": False}}
        for name, options in plain.items():
            visit = Visit(browser, url, token, faults, **options)
            visit.log_in()
            visit.read()
            if not options:
                visit.copy()
            visit.log_out()
            visits[name] = visit.titles
        for width in WIDTHS:
            for scheme in ("light", "dark"):
                # axe is no script of the console: the policy of the page would keep it out.
                visit = Visit(
                    browser,
                    url,
                    token,
                    faults,
                    viewport={"width": width, "height": 900},
                    color_scheme=scheme,
                    bypass_csp=True,
                )
                visit.axe = axe
                visit.log_in()
                visit.read()
                visit.log_out()
                visits[f"{width} {scheme}"] = visit.titles
        browser.close()
    print(json.dumps({"visits": visits, "faults": faults}))


main()
