"""First come, first served on whole nodes, with nothing of Parley's: pyzmq and msgpack."""

import os

import msgpack
import zmq

socket = zmq.Context().socket(zmq.REQ)
socket.connect(os.environ["PARLEY_ENDPOINT"])
session = {}


def ask(kind, body, **more):
    socket.send(msgpack.packb({"v": 1, "type": kind, "body": body, **session, **more}))
    return msgpack.unpackb(socket.recv())


me, can = {"name": "smallest", "version": "1"}, {"state": "snapshot"}
answer = ask("hello", {"versions": ["1.0"], "client": me, "capabilities": can})
session = {"session": answer["session"], "epoch": answer["epoch"]}
answer = ask("ready", {}, re=answer["seq"])
while answer["type"] == "decision.request":
    state, starts = answer["body"]["state"], []
    free = sum(last - first + 1 for first, last, left, _ in state["nodes"] if left["core"])
    for job in state["pending"]:
        if (free := free - job["request"][0]["chunks"]) < 0:
            break
        starts.append({"id": len(starts), "kind": "start", "job": job["job"]})
    reply = {"decisions": starts, "state_version": answer["body"]["state_version"]}
    answer = ask("decision.reply", reply, re=answer["seq"])
