"""MkDocs' hook: pages beside what they describe are part of the site, and links reach them.

A link in the repository goes from file to file; in the site the folder `docs` is the root.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
ELSEWHERE = ("CHANGELOG.md", "dashboards/README.md", "deploy/*/README.md")
_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)#:]+)(?P<anchor>#[^)]*)?\)")
_DOCS = "docs/"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in `docs`."""
    for path in sorted(path for glob in ELSEWHERE for path in ROOT.glob(glob)):
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files of the repository into links between pages."""
    del config
    here = page.file.src_uri
    written = here if page.file.generated_by else _DOCS + here

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(written), match["target"]))
        place = target.removeprefix(_DOCS)
        if files.get_file_from_path(place) is None:  # a file, or a folder, that is no page
            direct = posixpath.normpath(posixpath.join(posixpath.dirname(here), match["target"]))
            return match[0] if files.get_file_from_path(direct) else f"{match['text']} (`{target}`)"
        relative = posixpath.relpath(place, posixpath.dirname(here) or ".")
        return f"[{match['text']}]({relative}{match['anchor'] or ''})"

    return _LINK.sub(link, markdown)
