"""A run's status in Prometheus' format, at a port of loopback.

`prometheus_client` is Prometheus' own, in Python alone and without dependencies: it escapes, negotiates the format and
serves it, which would be as many lines again here.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fastfedpg.errors import InputError
from fastfedpg.federation.watch import Watch

LOOPBACK = "127.0.0.1"
PEER = {
    "here": (GaugeMetricFamily, "agent_connected", "Whether the agent's node is connected."),
    "asked": (CounterMetricFamily, "questions", "Questions to the agent."),
    "answered": (CounterMetricFamily, "answers", "Answers of the agent."),
    "failed": (CounterMetricFamily, "failures", "Questions to the agent without an answer."),
    "bytes_down": (CounterMetricFamily, "sent_bytes", "Bytes of questions to the agent."),
    "bytes_up": (CounterMetricFamily, "received_bytes", "Bytes of answers of the agent."),
    "seconds": (GaugeMetricFamily, "answer_seconds", "Seconds that the agent's last answer took."),
}


class StatusCollector(Collector):
    """What a watch knows, at the time it is asked."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def collect(self) -> Iterator[Metric]:
        """Every number, with the agent or the exchange as its label."""
        status = self.watch.snapshot()
        for name, words in (("round", "The round that is being asked for."), ("rounds", "Rounds of the whole run.")):
            yield GaugeMetricFamily(f"fastfedpg_{name}", words, value=status[name])
        count = CounterMetricFamily("fastfedpg_exchanges", "Exchanges that all have answered.", labels=["exchange"])
        total = CounterMetricFamily("fastfedpg_exchange_seconds", "Seconds that they took.", labels=["exchange"])
        for name, phase in status["phases"].items():
            count.add_metric([name], phase["count"])
            total.add_metric([name], phase["seconds"])
        yield from (count, total)
        for key, (kind, name, words) in PEER.items():
            family = kind(f"fastfedpg_{name}", words, labels=["agent"])
            for who, peer in status["peers"].items():
                family.add_metric([who], float(peer[key]))
            yield family


@contextmanager
def serve_metrics(watch: Watch, port: int | None) -> Iterator[int | None]:
    """http://127.0.0.1:PORT/metrics as long as the context lasts; 0 is a free port, None is nobody there."""
    if port is None:
        yield None
        return
    registry = CollectorRegistry()
    registry.register(StatusCollector(watch))
    try:
        server, thread = start_http_server(port, LOOPBACK, registry)
    except (OSError, OverflowError) as error:
        raise InputError(f"metrics_port = {port}: {error}; give another, or 0 for one that is free") from None
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
