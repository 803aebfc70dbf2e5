"""Pages link to files of the repository outside docs/, as ../../results/x.json, so that they also work in a checkout.

The site has these files under repository/. A link to a file that does not exist is left as it is, and a strict build
then fails.
"""

import os
import re
from pathlib import Path
from urllib.parse import unquote

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
PROJECT_PAGES = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
"""Pages of the site that are at the top of the repository."""


def target_of(link: str, folder: Path) -> Path | None:
    """The file of the repository, outside docs/, that a relative link in a folder leads to."""
    if ":" in link or link.startswith("/"):
        return None
    target = Path(os.path.normpath(folder / unquote(link)))
    if not target.is_relative_to(ROOT) or target.is_relative_to(DOCS):
        return None
    if target.is_dir():
        target = target / "README.md"
    return target if target.is_file() else None


def linked_files(page: Path) -> set[Path]:
    """All files outside docs/ that a page links to, also through pages among them."""
    found: set[Path] = set()
    queue = [page]
    while queue:
        here = queue.pop()
        for match in LINK.finditer(here.read_text(encoding="utf-8")):
            target = target_of(match[2], here.parent)
            if target and target not in found:
                found.add(target)
                if target.suffix == ".md":
                    queue.append(target)
    return found


def on_files(files: Files, config: object) -> Files:
    wanted = {ROOT / name for name in PROJECT_PAGES}
    for page in [*DOCS.rglob("*.md"), *sorted(wanted)]:
        wanted |= linked_files(page)
    for path in sorted(wanted):
        place = f"repository/{path.relative_to(ROOT)}"
        files.append(File.generated(config, place, abs_src_path=str(path)))
        if path.suffix == ".md" and path.name not in PROJECT_PAGES:
            files.get_file_from_path(place).inclusion = files.get_file_from_path(place).inclusion.NOT_IN_NAV
    return files


def on_page_markdown(markdown: str, page: object, **_: object) -> str:
    source = page.file.src_uri
    inside = source.removeprefix("repository/")
    folder = (ROOT / inside).parent if inside != source else (DOCS / source).parent
    here = Path(source).parent

    def moved(match: re.Match[str]) -> str:
        link = match[2]
        if ":" in link:
            return match[0]
        target = target_of(link, folder)
        if target is None:
            docs_page = Path(os.path.normpath(folder / link))
            if inside == source or not docs_page.is_relative_to(DOCS):
                return match[0]
            new = str(docs_page.relative_to(DOCS))
        else:
            new = f"repository/{target.relative_to(ROOT)}"
        return f"{match[1]}{os.path.relpath(new, here)}{match[3] or ''}{match[4]}"

    return LINK.sub(moved, markdown)
