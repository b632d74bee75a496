"""A person with a real browser logs in to the console at an issuer, which is another site, looks and logs out.

Usage: chromium_oidc.py CONSOLE-URL. Prints one JSON object: the titles of the pages of each visit, and the messages of the browser.
"""

import json
import shutil
import sys

from playwright.sync_api import sync_playwright


def visit(browser, url, faults, **options):
    titles = []
    context = browser.new_context(**options)
    page = context.new_page()

    def said(message):
        # What the issuer's own page says is its matter.
        if page.url.startswith(url):
            faults.append(f"console: {message.text}")

    page.on("console", said)
    page.on("pageerror", lambda error: faults.append(f"script: {error}"))

    def note():
        page.wait_for_load_state()
        titles.append(page.title().removesuffix(" · Wicketgate"))

    page.goto(url)
    note()
    page.get_by_role("link", name="Log in with Acme").click()
    page.wait_for_url("**/authorize?**")
    note()
    page.get_by_role("link", name="Yes, it is me").click()
    page.wait_for_url(url)
    note()
    page.get_by_role("link", name="ines", exact=True).click()
    page.wait_for_url(url + "/me")
    page.get_by_role("link", name="Your session").click()
    page.wait_for_url(url + "/logout")
    note()
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url(url + "/login")
    note()
    # Of the login nothing is left in the browser, and the session has ended.
    left = [cookie["name"] for cookie in context.cookies()]
    if left:
        faults.append(f"cookies: {left}")
    page.goto(url + "/runs")
    if not page.url.endswith("/console/login"):
        faults.append(f"still in: {page.url}")
    context.close()
    return titles


def main():
    (url,) = sys.argv[1:]
    seen = {"faults": []}
    with sync_playwright() as playwright:
        # The machine's: the library would fetch a browser of its own.
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, options in {"with scripts": {}, "without scripts": {"java_script_enabled": False}}.items():
            seen[name] = visit(browser, url, seen["faults"], **options)
        browser.close()
    print(json.dumps(seen))


main()
