"""The smallest Flower app with the same payload: a phase for each byte from the socket, and its seconds back."""

import os
import socket
import time

from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

client_app = ClientApp()
server_app = ServerApp()


@client_app.query()
def echo(message: Message, context: Context) -> Message:
    """Send it back."""
    return Message(message.content, reply_to=message)


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    """Push, and pull every 50 ms until all are here."""
    wanted = int(context.run_config["nodes"])
    while len(nodes := [n.node_id for n in grid.get_nodes() if n.name.startswith("flower-")]) < wanted:
        time.sleep(0.5)
    caller = socket.socket(socket.AF_UNIX)
    caller.connect(str(context.run_config["socket"]))
    while caller.recv(1):
        began = time.monotonic()
        data = os.urandom(int(context.run_config["bytes"]))
        content = RecordDict({"x": ArrayRecord({"x": Array("uint8", (len(data),), "raw", data)})})
        waiting = set(grid.push_messages([Message(content, node, "query") for node in nodes]))
        while waiting:
            waiting -= {reply.metadata.reply_to_message_id for reply in grid.pull_messages([*waiting])}
            time.sleep(0.05 if waiting else 0)
        caller.sendall(f"{time.monotonic() - began:.6f}\n".encode())
