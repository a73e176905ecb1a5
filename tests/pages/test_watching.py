"""The page while a run goes on: to this machine alone, nothing else of the disk, and a panel in the terminal."""

import http.client
import json
import shutil
import socket
from dataclasses import asdict
from html import unescape
from pathlib import Path

import pytest
from rich.console import Console

from commands import command
from fastfedpg.cli import watch
from fastfedpg.errors import InputError
from fastfedpg.federation.watch import Peer, Phase, Status
from fastfedpg.pages import deployed, recorded, watched
from fastfedpg.pages.serving import served
from stopped_runs import OFTEN, killed


def ask(url: str, path: str = "/", host: str | None = None, method: str = "GET") -> tuple[int, str]:
    there = url.removeprefix("http://").rstrip("/")
    link = http.client.HTTPConnection(there, timeout=10)
    try:
        link.request(method, path, headers={"Host": host or there})
        answer = link.getresponse()
        return answer.status, answer.read().decode()
    finally:
        link.close()


@pytest.fixture
def url():
    with served(0, lambda: "the page", lambda: "stamp") as url:
        yield url


def test_two_addresses_and_nothing_else(url, made):
    assert ask(url) == (200, "the page")
    assert ask(url, "/stamp") == (200, "stamp")
    assert ask(url, method="HEAD") == (200, "")
    for path in ("/report.html", "/../etc/passwd", f"{made}/config.toml", "/?x", "/stamp/"):
        assert ask(url, path)[0] == 404
    assert ask(url, method="POST")[0] == 501


def test_another_name_for_this_machine_is_refused(url):
    """DNS rebinding: a page of somebody else's whose name leads here."""
    port = url.rsplit(":", 1)[1].rstrip("/")
    assert ask(url, host=f"localhost:{port}")[0] == 200
    for host in (
        f"evil.example:{port}",
        "evil.example",
        "127.0.0.1",
        f"127.0.0.1.evil.example:{port}",
        f"[::1]:{port}",
    ):
        assert ask(url, host=host)[0] == 421


def test_it_listens_on_loopback_alone(url):
    assert url.startswith("http://127.0.0.1:")


def test_a_port_in_use_is_refused_in_a_line(url, made, capsys):
    port = int(url.rsplit(":", 1)[1].rstrip("/"))
    assert command("watch", made, "--port", port) == 2
    said = capsys.readouterr().err
    assert f"port {port}: Address already in use; give another" in said
    assert len(said.splitlines()) == 1
    assert command("watch", made, "--port", 65536) == 2
    assert "between 0 and 65535" in capsys.readouterr().err
    with pytest.raises(InputError, match="give another"), served(port, str, str):
        pass


def test_ctrl_c_ends_with_130_and_lets_go_of_the_port(made, monkeypatch, capsys):
    asked = []

    def once(folder, url, console):
        asked.append((url, *ask(url), *ask(url, "/stamp")))
        raise KeyboardInterrupt

    monkeypatch.setattr(watch, "follow", once)
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*")}
    assert command("watch", made, "--port", 0) == 130
    assert "no longer watched; nothing in" in capsys.readouterr().err
    (url, code, page, other, now), *_ = asked
    assert (code, other, now) == (200, 200, watched.stamp(made))
    assert f'!== "{now}"' in page
    assert "connect-src 'self'" in unescape(page.split("<script>")[0])
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*")} == before
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", int(url.split(":")[2][:-1]))):
        pass


def test_what_is_no_run_is_not_watched(tmp_path, capsys):
    assert command("watch", tmp_path, "--port", 0) == 2
    assert "neither a run nor a comparison" in capsys.readouterr().err


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was killed after 8 of its 11 rounds: a checkpoint is all that there is of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("watched"))
        return killed("run", 8, OFTEN).absolute()


def test_a_run_without_results_is_told_from_its_checkpoint(stopped):
    told = recorded.read(stopped)
    assert told.state == "interrupted"
    assert told.recorded.rounds.tolist() == [0, 4]
    assert told.recorded.metrics["gap"].shape == (2, 2)
    assert told.recorded.returns.shape == (2, 4)
    page = watched.Watched(stopped, None).page()
    assert "The run was interrupted; 4 of 11 rounds were recorded." in page


def test_the_stamp_changes_with_a_checkpoint_and_with_nothing_else(stopped, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    before = watched.stamp(folder)
    (folder / "notes.txt").write_text("mine")
    assert watched.stamp(folder) == before
    newest = max((folder / "checkpoints").glob("0*"))
    (newest / "checkpoint.toml").write_text((newest / "checkpoint.toml").read_text())
    assert watched.stamp(folder) != before


def shown(draw, width: int = 100) -> str:
    console = Console(width=width, record=True, file=Path("/dev/null").open("w"))  # noqa: SIM115
    draw(console)
    console.file.close()
    return console.export_text()


def test_a_terminal_that_is_none_gets_a_line_for_a_change(stopped, monkeypatch):
    monkeypatch.setattr(watch, "LOOK", 0.0)
    said = shown(lambda console: watch.follow(stopped, "http://127.0.0.1:1/", console, looks=3))
    assert said.count("run: 8 of 11 rounds, interrupted") == 1


def test_the_panel_of_a_deployed_run_says_who_is_there(stopped, tmp_path):
    """Who takes part and what exchanges take, in the panel and in the page; names from messages stay text."""
    folder = tmp_path / "deployed"
    shutil.copytree(stopped, folder)
    (folder / "federation").mkdir()
    (folder / "federation" / "federation.toml").write_text("")
    peers = {
        "agent-0": Peer(True, 3, 3, 0, 90, 60, 0.25, 1.0),
        "\x1b[31mnode": Peer(False, 3, 1, 2, lack="<b>gone</b>"),
    }
    status = Status("run", 11, 2, 1.0, 2.0, 3, "local", {"local": Phase(4, 2.0, 0.4)}, peers)
    (folder / "federation" / "status.json").write_text(json.dumps(asdict(status)))
    said = shown(lambda console: console.print(watch.panel(watched.live(folder), "http://127.0.0.1:1/")))
    assert "\x1b[31m" not in said
    for words in ("8 of 11 rounds", "agent-0", "0.250 s", "local", "0.500"):
        assert words in said
    assert "1 of 2 agents are here, exchange local" in watch.line(watched.live(folder))
    (section,) = deployed.sections(folder)
    agents, exchanges = section.blocks
    assert agents.rows[0][:4] == ["agent-0", "yes", "3", "3"]
    assert agents.marks == ["", "bad"]
    assert exchanges.rows == [["local", "4", "0.500", "0.400"]]
