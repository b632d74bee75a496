"""How long pages of a console take in Chromium.

Usage: browser.py CONSOLE-URL TOKEN-FILE PATHS TURNS, PATHS a JSON list. Logs in, opens each page TURNS times, after once to warm up, and
prints a JSON list with a figure of each visit: milliseconds from the click to the first byte, the first paint and the loaded page, and
the bytes of the page and of all that it names.
"""

import json
import shutil
import sys

from playwright.sync_api import sync_playwright

FIGURES = """async () => {
  for (;;) {
    const [page] = performance.getEntriesByType("navigation");
    const [paint] = performance.getEntriesByName("first-contentful-paint");
    if (page.loadEventEnd > 0 && paint) {
      const all = performance.getEntriesByType("resource");
      const bytes = all.reduce((sum, one) => sum + one.encodedBodySize, page.encodedBodySize);
      return {first_byte: page.responseStart - page.requestStart, paint: paint.startTime, load: page.loadEventEnd, bytes};
    }
    await new Promise((done) => setTimeout(done, 5));
  }
}"""


def main():
    url, token_file, paths, turns = sys.argv[1:]
    with open(token_file, encoding="utf-8") as file:
        token = file.read().strip()
    visits = []
    with sync_playwright() as playwright:
        # The machine's: the library would fetch a browser of its own.
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(url)
        page.locator("#token").fill(token)
        page.keyboard.press("Enter")
        page.wait_for_url(url)
        for path in json.loads(paths):
            for turn in range(int(turns) + 1):
                page.goto(url + path)
                figures = page.evaluate(FIGURES)
                if turn:
                    visits.append({"path": path, **figures})
        browser.close()
    print(json.dumps(visits))


if __name__ == "__main__":
    main()
