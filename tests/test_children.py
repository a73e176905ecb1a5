"""Children that end with their parent, and are ended with all that they started."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from fastfedpg import children

SLEEP = "import time; time.sleep(600)"
PARENT = f"import subprocess, sys, time; {{}}subprocess.Popen([sys.executable, '-c', {SLEEP!r}]{{}}); {{}}"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "


def running(process):
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def started(program):
    """A child with a child of its own, and both."""
    child = children.start([sys.executable, "-c", program], os.environ)
    return child, until(lambda: len(found := children.family([child.pid])) == 2 and found)


def test_a_child_that_listens_is_asked_and_its_own_child_is_ended_with_it():
    """It ends by SIGTERM, well within its 5 s; its own child, which nobody asked, is killed after them."""
    child, everyone = started(PARENT.format("", "", SLEEP.partition("; ")[2]))
    children.end([child], seconds=0.3)
    assert child.returncode == -signal.SIGTERM
    until(lambda: not any(map(running, everyone)))


def test_a_deaf_child_is_killed_after_its_time():
    child, everyone = started(PARENT.format(DEAF, "", SLEEP.partition("; ")[2]))
    time.sleep(0.2)  # until it is deaf
    began = time.monotonic()
    children.end([child], seconds=0.5)
    assert time.monotonic() - began >= 0.5
    assert child.returncode == -signal.SIGKILL
    until(lambda: not any(map(running, everyone)))


@pytest.mark.parametrize("own", ["", ", start_new_session=True"], ids=["in its group", "in a session of its own"])
def test_without_time_all_are_killed_at_once(own):
    child, everyone = started(PARENT.format("", own, SLEEP.partition("; ")[2]))
    began = time.monotonic()
    children.end([child], seconds=0)
    assert child.returncode == -signal.SIGKILL
    until(lambda: not any(map(running, everyone)), seconds=2)
    assert time.monotonic() - began < 4


def test_an_orphan_is_ended_with_its_group():
    """The child has ended by itself, so that what it started is nobody's descendant."""
    child, everyone = started(PARENT.format("", "", "time.sleep(0.5)"))
    assert child.wait() == 0
    assert running(everyone[1])
    children.end([child], seconds=0)
    until(lambda: not running(everyone[1]))


def test_a_number_that_was_given_again_is_another_process():
    """A process that is noted, and then gone: whoever has its number now is left alone."""
    other = subprocess.Popen([sys.executable, "-c", SLEEP])
    noted = psutil.Process(other.pid)
    noted._create_time, noted._ident = 1.0, (other.pid, 1.0)
    assert not children._alive(noted)
    assert children._alive(psutil.Process(other.pid))
    other.kill()
    until(lambda: not children._alive(psutil.Process(other.pid)))
    assert psutil.Process(other.pid).status() == psutil.STATUS_ZOMBIE
    other.wait()


def test_no_jax_is_imported():
    """Processes that play, or that Flower starts, import this module."""
    words = "import sys, fastfedpg.children; print('jax' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", words], text=True) == "False\n"
