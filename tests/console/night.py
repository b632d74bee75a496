"""Three in the morning in a real browser: finds the run with the most calls, sees the arguments of one call, kills the run, and opens
the held call of another agent. It counts every click after the login; the keyboard types, and goes back.

Usage: night.py CONSOLE-URL TOKEN-FILE REASON. Prints one JSON object: the clicks, the run that was killed, the arguments that were
seen, what the page of the order says, the command that approves, the rows that arrived on the page of the live feed, and every fault.
"""

import json
import shutil
import sys

from playwright.sync_api import sync_playwright


class Night:
    """One window and the clicks in it."""

    def __init__(self, page):
        self.page, self.clicks = page, 0

    def click(self, what):
        self.clicks += 1
        what.click()
        self.page.wait_for_load_state()

    def link(self, name):
        return self.page.locator("nav").get_by_role("link", name=name, exact=True)


def most(page):
    """The link to the run with the most calls: the fifth column of the list."""
    rows = page.locator("main tbody tr").all()
    row = max(rows, key=lambda row: int(row.locator("td").nth(3).inner_text()))
    return row.locator("th a")


def work(page, url, token, reason):
    night = Night(page)
    page.goto(url)
    # A browser gives the field its focus after the page was loaded.
    page.locator("#token:focus").wait_for()
    page.keyboard.type(token)
    page.keyboard.press("Enter")
    page.wait_for_url(url)

    night.click(night.link("Runs"))
    night.click(most(page))
    run = page.locator("main dd code.id").first.inner_text()
    night.click(page.locator("main tbody th a").first)
    night.click(page.get_by_role("link", name="Show them"))
    arguments = page.locator("main").inner_text()
    page.go_back()
    page.go_back()
    night.click(page.get_by_role("link", name="Kill this run…"))
    page.locator("#reason").fill(reason)
    page.locator("#confirm").fill(run)
    night.click(page.get_by_role("button", name="Give the order"))
    order = page.locator("main").inner_text()
    night.click(night.link("Approvals"))
    night.click(page.locator("main tbody th a").first)
    commands = [one.inner_text() for one in page.locator("pre.command code").all()]
    return night, {"clicks": night.clicks, "run": run, "arguments": arguments, "order": order, "command": commands[0]}


def follow(page, url, told):
    """Opens the page of the feed, says so, and waits for a row that arrives by the stream."""
    page.goto(url + "/live")
    before = page.locator("[data-live=feed] tr").count()
    print(json.dumps(told), flush=True)
    # The test approves now: by the command, in a terminal.
    page.locator("[data-live=feed] tr", has_text="approval.granted").first.wait_for(timeout=60_000)
    row = page.locator("[data-live=feed] tr", has_text="approval.granted").first.inner_text()
    page.locator("[data-live=waiting]", has_text="0").wait_for(timeout=60_000)
    button = page.get_by_role("button", name="Announce events")
    button.click()
    live = page.locator("[data-live=feed]").get_attribute("aria-live")
    return {"before": before, "row": row, "live": live}


def main():
    url, token_file, reason = sys.argv[1:]
    with open(token_file, encoding="utf-8") as file:
        token = file.read().strip()
    faults = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_context().new_page()
        page.on("console", lambda message: faults.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: faults.append(f"script: {error}"))
        _, told = work(page, url, token, reason)
        followed = follow(page, url, told)
        browser.close()
    print(json.dumps({"followed": followed, "faults": faults}))


main()
