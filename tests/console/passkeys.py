"""People with real browsers and virtual authenticators in the console of a running gate.

Usage: passkeys.py AXE.js. Each line of standard input is a request, one JSON object with `do` and its arguments; each gets one line in answer.
The last answer, after the end of the input, lists what browsers complained about.
"""

import html
import json
import shutil
import sys
from urllib.parse import urlsplit

from playwright.sync_api import Error, sync_playwright

# What a page says once a decision was sent, or not.
OVER = ", ".join(
    [
        "h1:has-text('Your decision')",
        "p.failure",
        "#said:has-text('Nothing was signed')",
        "#said:has-text('No passkey was made')",
    ]
)


class Person:
    """One browser with an authenticator, logged in."""

    def __init__(self, browser, faults, url, token, judged=False, scripts=True):
        self.url, self.faults, self.sent = url, faults, []
        # axe is no script of the console: the policy of the page would keep it out.
        self.context = browser.new_context(bypass_csp=judged, java_script_enabled=scripts)
        self.page = self.context.new_page()
        self.page.on("console", self.complained)
        self.page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        self.page.on("request", self.requested)
        self.devtools = self.context.new_cdp_session(self.page)
        self.devtools.send("WebAuthn.enable")
        options = {
            "protocol": "ctap2",
            "transport": "internal",
            "hasResidentKey": True,
            "hasUserVerification": True,
            "isUserVerified": True,
            "automaticPresenceSimulation": True,
        }
        added = self.devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})
        self.authenticator = added["authenticatorId"]
        self.log_in_again(token)

    def log_in_again(self, token):
        self.page.goto(self.url)
        # A browser gives the field its focus after the page was loaded.
        self.page.locator("#token:focus").wait_for()
        self.page.keyboard.type(token)
        self.page.keyboard.press("Enter")
        self.page.wait_for_url(self.url)
        return {}

    def complained(self, message):
        # A status that the test asked for is no complaint, nor that only ES256 has a form that OpenSSH knows.
        expected = ("Failed to load resource", "publicKey.pubKeyCredParams is missing")
        if not message.text.startswith(expected):
            self.faults.append(f"console: {message.text}")

    def requested(self, request):
        if urlsplit(request.url)[:2] != urlsplit(self.url)[:2]:
            self.faults.append(f"request to {request.url}")
        if request.method == "POST" and "/console/approvals/" in request.url:
            self.sent.append(request.post_data)

    def address(self, path):
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}{path}"

    def seen(self):
        text = self.page.locator("main").inner_text()
        return {"path": urlsplit(self.page.url).path, "text": text, "sent": self.sent}

    def tab_to(self, name):
        """By keyboard alone: forward until the element of this name has the focus."""
        for _ in range(200):
            self.page.keyboard.press("Tab")
            if self.page.evaluate("document.activeElement.textContent.trim()") == name:
                return
        raise ValueError(f"no key leads to {name}")

    def look(self, path):
        status = self.page.goto(self.address(path)).status
        return {**self.seen(), "status": status}

    def enrol(self):
        self.page.goto(self.address("/console/me"))
        self.tab_to("Make a passkey")
        self.page.keyboard.press("Enter")
        self.page.locator("#line:visible").or_(self.page.locator(OVER)).first.wait_for()
        return {**self.seen(), "line": self.page.locator("#line").input_value()}

    def verify(self, verified):
        args = {"authenticatorId": self.authenticator, "isUserVerified": verified}
        self.devtools.send("WebAuthn.setUserVerified", args)
        return {}

    def swap(self, pattern, swaps):
        """Changes what the server sends before the browser sees it."""

        def changed(route):
            if route.request.method == "POST":
                route.fallback()
                return
            response = route.fetch()
            body = response.text()
            for before, after in swaps:
                assert before in body, before
                body = body.replace(before, after)
            route.fulfill(response=response, body=body)

        self.page.route(pattern, changed)

    def keep(self, route):
        """What the browser would send stays here."""
        if route.request.method == "POST":
            route.fulfill(content_type="text/html", body="<main><p class='failure'>kept</p></main>")
        else:
            route.fallback()

    def decide(self, path, button, swaps=(), script=(), arguments=None, kept=False):
        self.sent.clear()
        if kept:
            self.page.route(self.address(path), self.keep)
        if swaps:
            self.swap(self.address(path), swaps)
        if script:
            self.swap("**/sign.js", script)
        self.page.goto(self.address(path))
        if arguments is not None:
            self.tab_to("Ask with other arguments…")
            self.page.keyboard.press("Enter")
            self.page.keyboard.press("Tab")
            self.page.keyboard.type(arguments)
        self.tab_to(button)
        self.page.keyboard.press("Enter")
        self.page.locator(OVER).first.wait_for()
        seen = self.seen()
        self.page.unroute_all()
        return seen

    def send(self, path, fields, page="/console", stated=False):
        """Sends these fields from this page: with the token of its form, if it has one, or with its statement as well."""
        self.page.goto(self.address(page))
        script = """async ([path, fields, stated]) => {
            const body = new URLSearchParams(fields);
            const token = document.querySelector("main input[name=form]");
            if (token) body.set("form", token.value);
            if (stated) body.set("statement", document.querySelector("#signing").dataset.approve);
            const answer = await fetch(path, { method: "POST", body });
            return { status: answer.status, text: await answer.text() };
        }"""
        answer = self.page.evaluate(script, [path, fields, stated])
        return {**answer, "text": html.unescape(answer["text"])}

    def press(self, path, button):
        self.page.goto(self.address(path))
        self.page.get_by_role("button", name=button).click()
        self.page.locator(OVER).first.wait_for()
        return self.seen()

    def expire(self, path):
        self.page.goto(self.address(path))
        self.page.locator("#said:has-text('The hold has ended')").wait_for()
        buttons = self.page.locator("#signing button").count()
        return {**self.seen(), "buttons": buttons}

    def judge(self, paths, axe):
        """What axe-core finds on these pages, narrow and wide, in the light and in the dark."""
        found = []
        for path in paths:
            for width in (1280, 390):
                for scheme in ("light", "dark"):
                    self.page.set_viewport_size({"width": width, "height": 900})
                    self.page.emulate_media(color_scheme=scheme)
                    self.page.goto(self.address(path))
                    self.page.evaluate("document.querySelectorAll('[hidden]').forEach((e) => (e.hidden = false))")
                    for closed in self.page.locator("summary").all():
                        closed.click()
                    self.page.add_script_tag(content=axe)
                    violations = self.page.evaluate("axe.run()")["violations"]
                    found += [f"{path} {width} {scheme}: {one['id']}: {[node['html'] for node in one['nodes']]}" for one in violations]
                    if self.page.locator("html").evaluate("e => e.scrollWidth > e.clientWidth"):
                        found.append(f"{path} {width}: wider than the window")
        return {"found": found}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        axe = file.read()
    people, faults = {}, []
    with sync_playwright() as playwright:
        # The machine's: the library would fetch a browser of its own.
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for line in sys.stdin:
            asked = json.loads(line)
            do, who = asked.pop("do"), asked.pop("who")
            try:
                if do == "log_in":
                    people[who] = Person(browser, faults, **asked)
                    answer = {}
                elif do == "judge":
                    answer = people[who].judge(axe=axe, **asked)
                else:
                    answer = getattr(people[who], do)(**asked)
            except (Error, ValueError, AssertionError) as error:
                page = people[who].seen() if who in people else {}
                answer = {"error": f"{do}: {error}", **page}
            print(json.dumps(answer), flush=True)
        browser.close()
    print(json.dumps({"faults": faults}), flush=True)


main()
