"""What an operator is told: status.json, the audit log and Prometheus' numbers, counted from messages."""

import hashlib
import json
import os
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from commands import command
from fastfedpg.errors import InputError
from fastfedpg.federation import audit, metrics, protocol, watch, wire
from fastfedpg.federation.transport.engine import Answer, Failure, Seen

RUN = "0123456789abcdef" * 2
THETA = np.arange(4.0)
QUESTION = protocol.question(RUN, 2, "gradient", "b", "p", {"down": THETA})
ANSWER = protocol.reply(0, "m", {"up": THETA})


class Nodes:
    """An engine of three nodes: agent 0 answers, agent 1 fails, and a node without a key is silent."""

    def nodes(self):
        return {7: Seen(0), 8: Seen(1), 9: Seen(None)}

    def ask(self, questions, seconds):
        for node in questions:
            if node != 9:
                yield Answer(node, ANSWER if node == 7 else Failure("it\x1b[31m\nfails\x7f"))

    def close(self):
        self.closed = True


@pytest.fixture
def said():
    return []


@pytest.fixture
def watched(tmp_path, said):
    with watch.Watch(tmp_path, RUN, 5, 3, said.append) as made:
        made.engine = made.over_engine(lambda seconds: Nodes())(1.0)
        yield made


def lines(folder):
    return [json.loads(line) for line in (folder / audit.FILE).read_text().splitlines()]


def test_everything_that_passes_is_counted(watched):
    engine = watched.engine
    assert engine.nodes() == Nodes().nodes()
    heard = [*engine.ask(dict.fromkeys((7, 8, 9), QUESTION), 3.0)]
    assert heard == [*Nodes().ask((7, 8, 9), 3.0)]
    [*_] = engine.ask({7: QUESTION}, 3.0)
    told = watched.snapshot()
    assert (told["run"], told["round"], told["rounds"], told["exchange"]) == (RUN, 3, 5, "gradient")
    first, second, silent = (told["peers"][name] for name in ("agent-0", "agent-1", "node 9"))
    assert [first[k] for k in ("here", "asked", "answered", "failed")] == [True, 2, 2, 0]
    assert (first["bytes_down"], first["bytes_up"]) == (2 * len(QUESTION), 2 * len(ANSWER))
    assert [second[k] for k in ("asked", "answered", "failed", "bytes_up")] == [1, 0, 1, 0]
    assert second["lack"] == "it\\x1b[31m\\nfails\\x7f"
    assert silent["lack"] == "no answer within 3 s"
    # Of two questions the first was never answered by all: one exchange is complete, and has a time.
    assert told["phases"]["gradient"]["count"] == 1
    assert told["phases"]["gradient"]["seconds"] == told["phases"]["gradient"]["last"] > 0


def test_one_line_for_each_message_says_who_when_which_how_large_and_its_hash(watched, tmp_path):
    watched.online(Nodes().nodes())
    [*_] = watched.engine.ask(dict.fromkeys((7, 8, 9), QUESTION), 3.0)
    found = lines(tmp_path)
    assert [(x["way"], x["who"]) for x in found] == [
        *(("out", who) for who in ("agent-0", "agent-1", "node 9")),
        *(("in", who) for who in ("agent-0", "agent-1", "node 9")),
    ]
    assert all(x["run"] == RUN and (x["ask"], x["round"], x["exchange"]) == ("exchange", 2, "gradient") for x in found)
    assert (found[0]["bytes"], found[0]["sha256"]) == (len(QUESTION), hashlib.sha256(QUESTION).hexdigest())
    assert (found[3]["bytes"], found[3]["sha256"]) == (len(ANSWER), hashlib.sha256(ANSWER).hexdigest())
    assert "sha256" not in found[4]
    raw = (tmp_path / audit.FILE).read_bytes()
    assert not set(raw) - {10, *range(32, 127)}  # nothing that a terminal obeys


def test_a_site_writes_down_the_same_hashes_as_its_server(watched, tmp_path, said):
    """So that both can be laid side by side: what one sent is what the other had."""
    site = tmp_path / "site"
    site.mkdir()
    own = audit.Audit(site, said.append)
    asked = audit.audited(lambda question: ANSWER, own, "agent-0")

    class Here(Nodes):
        def ask(self, questions, seconds):
            for node, question in questions.items():
                yield Answer(node, asked(question))

    [*_] = watch.Watched(Here(), watched).ask({7: QUESTION}, 3.0)
    own.close()
    mine, theirs = lines(tmp_path), lines(site)
    assert [x["sha256"] for x in mine] == [x["sha256"] for x in theirs]
    assert [(x["way"], x["who"]) for x in theirs] == [("in", "server"), ("out", "agent-0")]


@pytest.mark.parametrize(
    "about",
    [
        {"run": "\x1b]0;owned\x07\n{}", "ask": ["x"] * 1000, "round": 10**30, "exchange": None},
        {"run": {"deep": "\u202e"}, "ask": True, "round": "1\r\n", "exchange": "\x9b31m"},
    ],
)
def test_what_a_stranger_says_can_do_no_harm_in_a_log(tmp_path, said, about):
    log = audit.Audit(tmp_path, said.append)
    log.note("in", "server", b"x", audit.told(wire.pack(about)))
    log.note("in", "server", b"x", audit.told(b"no message at all"))
    log.close()
    raw = (tmp_path / audit.FILE).read_bytes()
    assert not set(raw) - {10, *range(32, 127)}
    assert len(raw) < 1500
    assert len(lines(tmp_path)) == 2


def test_the_log_is_bounded(tmp_path, said, monkeypatch):
    monkeypatch.setattr(audit, "LARGEST", 1000)
    monkeypatch.setattr(audit, "OLDER", 2)
    log = audit.Audit(tmp_path, said.append)
    for k in range(50):
        log.note("out", f"agent-{k}", b"x", {})
    log.close()
    kept = sorted(tmp_path.iterdir())
    assert [path.name for path in kept] == [audit.FILE, f"{audit.FILE}.1", f"{audit.FILE}.2"]
    assert all(path.stat().st_size <= 1000 for path in kept)
    assert lines(tmp_path)[-1]["who"] == "agent-49"


def test_a_log_that_can_not_be_written_is_said_once_and_stops_nothing(tmp_path, said):
    os.mkfifo(tmp_path / audit.FILE)
    log = audit.Audit(tmp_path, said.append)
    for _ in range(3):
        log.note("out", "agent-0", b"x", {})
    log.close()
    assert len(said) == 1
    assert "audit.jsonl can't be written" in said[0]


def test_a_status_that_can_not_be_written_is_said_once_and_stops_nothing(tmp_path, said, monkeypatch):
    monkeypatch.setattr(watch, "WRITE_SECONDS", 0.01)
    monkeypatch.setattr(watch, "write_text", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with watch.Watch(tmp_path, RUN, 5, 3, said.append) as made:
        for _ in range(3):
            [*_] = made.over_engine(lambda seconds: Nodes())(1.0).ask({7: QUESTION}, 3.0)
            time.sleep(0.03)
    assert said == [f"{tmp_path / watch.FILE} can't be written: No space left on device"]


def test_prometheus_reads_the_same_numbers(watched):
    watched.online(Nodes().nodes())
    [*_] = watched.engine.ask({7: QUESTION, 8: QUESTION}, 3.0)
    with metrics.serve_metrics(watched, 0) as port:
        address = f"http://127.0.0.1:{port}/metrics"
        text = urllib.request.urlopen(address, timeout=10).read().decode()
    found = {
        (s.name, *s.labels.values()): s.value for family in text_string_to_metric_families(text) for s in family.samples
    }
    assert found["fastfedpg_round",] == 3
    assert found["fastfedpg_rounds",] == 5
    assert found["fastfedpg_sent_bytes_total", "agent-0"] == len(QUESTION)
    assert found["fastfedpg_received_bytes_total", "agent-0"] == len(ANSWER)
    assert found["fastfedpg_failures_total", "agent-1"] == 1
    assert found["fastfedpg_agent_connected", "agent-1"] == 1
    assert found["fastfedpg_exchanges_total", "gradient"] == 1
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address, timeout=10)


def test_a_port_that_is_taken_is_named(watched):
    with (
        metrics.serve_metrics(watched, 0) as port,
        pytest.raises(InputError, match=f"metrics_port = {port}: "),
        metrics.serve_metrics(watched, port),
    ):
        pass


def test_status_reads_what_was_written_whole(tmp_path, capsys, said):
    folder = tmp_path / "federation"
    folder.mkdir()
    (tmp_path / "config.toml").write_text('problem = "random"\nalgorithm = "fast_fedpg"\nrounds = 5\n')
    assert command("status", tmp_path) == 2
    assert "status.json: No such file" in capsys.readouterr().err
    with watch.Watch(folder, RUN, 5, 3, said.append) as made:
        made.online(Nodes().nodes())
        [*_] = made.over_engine(lambda seconds: Nodes())(1.0).ask({7: QUESTION, 8: QUESTION}, 3.0)
    assert watch.read(folder).peers["agent-0"].bytes_up == len(ANSWER)
    assert command("status", tmp_path) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "fast_fedpg on random, interrupted; 0 of 5 rounds are done" in shown
    assert f"agent-0 no 1 1 0 {len(QUESTION)} {len(ANSWER)}" in shown
    assert r"it\x1b[31m\nfails\x7f" in shown
    assert "gradient 1" in shown
    text = (folder / watch.FILE).read_text()
    for damaged in ("{", text.replace('"format": 1', '"format": 2'), text.replace('"peers"', '"beers"'), "[]"):
        (folder / watch.FILE).write_text(damaged)
        with pytest.raises(InputError, match=r"status\.json: "):
            watch.read(Path(folder))
