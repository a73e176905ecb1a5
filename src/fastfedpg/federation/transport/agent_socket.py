"""An agent behind its socket: each caller brings one question and takes its answer away."""

import logging
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection

from fastfedpg.federation.transport import unix_socket

LOG = logging.getLogger("fastfedpg.agent")
CALLERS = 8
PAUSE_SECONDS = 0.5
QUESTION_SECONDS = 60.0


def answer_callers(
    answer: Callable[[bytes], bytes], limit: int, listener: unix_socket.Listener, stop: threading.Event
) -> None:
    """Answer one question after another until told to stop; the one in hand is finished first."""
    one_at_a_time = threading.Lock()
    callers = threading.Semaphore(CALLERS)

    def attend(caller: Connection) -> None:
        try:
            question = unix_socket.receive(caller, limit, QUESTION_SECONDS)
            with one_at_a_time:
                said = answer(question)
            unix_socket.send(caller, said)
        except (unix_socket.Closed, TimeoutError) as error:
            LOG.warning("a caller went away, or asked for too much: %s", error)
        finally:
            caller.close()
            callers.release()

    while not stop.is_set():
        if not listener.reachable():
            LOG.error(
                "the socket %s is gone, and with it all callers; the agent ends, to be started again", listener.path
            )
            break
        caller = listener.accept(PAUSE_SECONDS)
        if caller is not None and callers.acquire(blocking=False):
            threading.Thread(target=attend, args=(caller,), daemon=True).start()
        elif caller is not None:
            caller.close()
    with one_at_a_time:
        listener.close()
