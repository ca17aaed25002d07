"""The build of the notebooks: what it writes is whole, and it leaves no process behind."""

import base64
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from nbformat import v4

BUILD = Path(__file__).resolve().parent.parent / "notebooks" / "build.py"
FIGURE = b"a figure in bytes"

pytestmark = pytest.mark.notebook


def write_book(folder, code, *, tags=()):
    """Write a book of one chapter with one code cell, and return its folder."""
    cell = v4.new_code_cell(code, metadata={"tags": list(tags)})
    chapter = v4.new_notebook(cells=[v4.new_markdown_cell("# Chapter"), cell])
    shutil.copy(BUILD, folder)
    nbformat.write(chapter, folder / "00_chapter.ipynb")
    return folder


def start(book):
    """Start a build in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "build.py", "--in-place"],
        cwd=book,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # a shell's background jobs, whose children the tests then are, ignore Ctrl-C
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def wait_until(condition, seconds=60):
    """Return whether a condition comes true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False


def is_running(pid):
    """Return whether a process is there and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


OVERVIEW = f"""
from IPython.display import Image
Image(data={FIGURE!r}, format="png")
"""


def test_overview_is_the_figure_of_the_chapter(tmp_path):
    """The figure of the tagged cell is written beside the chapter, and scratch files of a build
    that was killed are removed."""
    book = write_book(tmp_path, OVERVIEW, tags=["overview"])
    (book / "overview.png").write_bytes(b"old")
    (book / "overview.png.tmp").write_bytes(b"half")
    build = start(book)
    output, _ = build.communicate(timeout=120)
    assert build.returncode == 0, output
    assert (book / "overview.png").read_bytes() == FIGURE
    figure = nbformat.read(book / "00_chapter.ipynb", as_version=4).cells[1].outputs[0]
    assert base64.b64decode(figure.data["image/png"]) == FIGURE
    assert not list(book.glob("*.tmp"))


SLEEP = """
import os, time
with open({path!r}, "w") as file:
    print(os.getpid(), os.getppid(), file=file, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("send", "number"),
    [(os.kill, signal.SIGKILL), (os.killpg, signal.SIGINT)],
    ids=["killed", "interrupted"],
)
def test_no_process_outlives_the_build(tmp_path, send, number):
    """However a build ends, its worker and the worker's kernel end as well; Ctrl-C in a terminal
    reaches the worker, too."""
    started = tmp_path / "started"
    (tmp_path / "book").mkdir()
    book = write_book(tmp_path / "book", SLEEP.format(path=str(started)))
    build = start(book)
    assert wait_until(lambda: started.exists() and len(started.read_text().split()) == 2)
    kernel, worker = map(int, started.read_text().split())
    assert is_running(kernel)
    assert is_running(worker)
    send(build.pid, number)
    build.wait(timeout=30)
    try:
        assert wait_until(lambda: not is_running(kernel) and not is_running(worker), seconds=20)
    finally:
        for pid in filter(is_running, (worker, kernel)):
            os.kill(pid, signal.SIGKILL)
        build.stdout.close()
