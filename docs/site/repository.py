"""Shows the files of the repository that a page links to as pages of the site: no link leads out of it."""

import posixpath
import re
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

TOP = Path(__file__).resolve().parents[2]
ELSEWHERE = "repository/"
# A link or an image; a destination with a scheme is no path.
LINK = re.compile(r"(?<=\]\()(?![a-z][a-z0-9+.-]*:)([^)\s#]+)(#[^)\s]*)?(?=\))")
# Code shows links of other texts.
CODE = re.compile(r"(^```.*?^```$|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
PICTURES = {".png", ".svg"}
# The folders of pages, in the order in which people need them.
PARTS = ["first-day", "agents", "policy", "operate", "people", "evidence", "security", "reference"]


def on_config(config):
    """Lists every page beside the text: a page that is added is never missing there."""
    folders = {path.name for path in (TOP / "docs").iterdir() if path.is_dir() and any(path.glob("*.md"))}
    if folders != set(PARTS):
        raise PluginError(f"PARTS of docs/site/repository.py lists {PARTS}, docs/ has {sorted(folders)}")
    parts = [{part.replace("-", " "): sorted(f"{part}/{page.name}" for page in (TOP / "docs" / part).glob("*.md"))} for part in PARTS]
    config.nav = ["README.md", "quickstart.md", "concepts.md", *parts]
    return config


def on_files(files, config):
    """Adds what the pages link to, and what those files link to."""
    open_ = [path_of(file.src_uri) for file in files.documentation_pages()]
    seen = set(open_)
    while open_:
        for target in set(linked(open_.pop())) - seen:
            seen.add(target)
            if not target.startswith("docs/") or (TOP / target).is_dir():
                files.append(shown(target, config))
            open_ += [target] if target.endswith(".md") else []
    return files


def on_page_markdown(markdown, page, **_):
    """Lets links lead to where the site has their targets."""
    source = path_of(page.file.src_uri)
    if not (TOP / source).is_file():
        return markdown
    parts = CODE.split(markdown)
    return "".join(part if index % 2 else LINK.sub(lambda link: moved(source, link), part) for index, part in enumerate(parts))


def path_of(uri):
    """The path of a page in the repository."""
    return uri.removeprefix(ELSEWHERE) if uri.startswith(ELSEWHERE) else f"docs/{uri}"


def uri_of(path):
    """Where the site has a path of the repository."""
    if (TOP / path).is_dir():
        path += "/index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    plain = Path(path).suffix in {".md", *PICTURES}
    return f"{ELSEWHERE}{path}" if plain else f"{ELSEWHERE}{path}.md"


def target_of(page, link):
    """The file that a link of a page means; a folder's is its README, or the folder itself."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    readme = f"{path}/README.md"
    return readme if (TOP / readme).is_file() else path


def linked(page):
    """What a page links to."""
    prose = CODE.sub("", (TOP / page).read_text("utf-8"))
    return [target_of(page, link[1]) for link in LINK.finditer(prose)]


def moved(page, link):
    """A link as the site needs it."""
    to = posixpath.relpath(uri_of(target_of(page, link[1])), posixpath.dirname(uri_of(page)) or ".")
    return to + (link[2] or "")


def shown(path, config):
    """A file of the repository as a page; a folder as a list of its files."""
    place = TOP / path
    uri = uri_of(path)
    if place.suffix in PICTURES:
        return File.generated(config, uri, abs_src_path=str(place))
    if place.is_dir():
        names = sorted(f.relative_to(place).as_posix() for f in place.rglob("*") if f.is_file())
        lines = [f"- [{name}]({name})" if path.startswith("docs/") else f"- `{name}`" for name in names]
        return File.generated(config, uri, content="\n".join([f"# {path}", "", *lines]))
    text = place.read_text("utf-8")
    if path.endswith(".md"):
        return File.generated(config, uri, content=text)
    return File.generated(config, uri, content=f"# {path}\n\n" + "".join(f"    {line}\n" for line in text.splitlines()))

