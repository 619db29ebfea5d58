"""Code blocks of a Markdown page."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced code block."""

    page: str
    # Line of the opening fence, from 1.
    line: int
    language: str
    text: str

    @property
    def place(self):
        return f"{self.page}:{self.line}"


def blocks_of(root, page):
    """All code blocks of a page, in order."""
    found, opened = [], None
    for number, line in enumerate((root / page).read_text().splitlines(), 1):
        if line.startswith("```"):
            if opened is None:
                opened = (number, line.removeprefix("```").strip(), [])
            else:
                found.append(Block(page, opened[0], opened[1], "\n".join(opened[2]) + "\n"))
                opened = None
        elif opened is not None:
            opened[2].append(line)
    return found


def session_of(text):
    """Commands of a terminal session, each with the lines that it printed: `$ command`, output."""
    steps = []
    for line in text.splitlines():
        if line.startswith("$ "):
            steps.append((line.removeprefix("$ "), []))
        elif steps[-1][0].endswith("\\"):
            steps[-1] = (steps[-1][0].removesuffix("\\") + line.strip(), [])
        else:
            steps[-1][1].append(line)
    return steps
