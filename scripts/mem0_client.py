#!/usr/bin/env python3
"""The `mem0ai` package's own client, pointed at `earmark serve`: add, search, list, change, rate, delete.

    pip install mem0ai
    scripts/mem0_client.py [--binary target/release/earmark]

Starts a server on loopback with a fresh folder, a key of its own and a stub for the encoder, and calls nothing else.
`--log FILE` writes down every request that the client made, as JSON lines.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        # Read when mem0 is imported.
        os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=folder + "/mem0")
        stub = start([sys.executable, str(HERE / "stub_encoder.py")], subprocess.PIPE)
        environment = os.environ | {
            "EARMARK_DATA_DIR": folder + "/data",
            "EARMARK_ENCODER__URL": stub.stdout.readline().strip(),
            "EARMARK_ENCODER__MODEL": "stub",
            "HOME": folder,
        }
        key = made_key(options.binary, environment)
        server = start([options.binary, "serve", "--listen", "127.0.0.1:0"], None, environment)
        try:
            walk(client(address(server), key, options.log))
        finally:
            for process in (server, stub):
                process.terminate()
                process.wait()


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", default="target/release/earmark")
    parser.add_argument("--log")
    return parser.parse_args()


def start(command, stdout, environment=None):
    stderr = None if stdout else subprocess.PIPE
    return subprocess.Popen(command, stdout=stdout, stderr=stderr, text=True, env=environment)


def made_key(binary, environment):
    """mem0's client always sends a key; ours names the namespace."""
    command = [binary, "keys", "create", "--namespaces", "mem0", "--access", "write", "--json"]
    made = subprocess.run(command, env=environment, text=True, capture_output=True, check=True)
    return json.loads(made.stdout)["key"]


def address(server):
    for line in server.stderr:
        found = re.search(r"listening on (http://\S+?)/? ", line + " ")
        if found:
            return found.group(1)
    raise SystemExit("the server did not start")


def client(host, key, log):
    import httpx
    from mem0 import MemoryClient

    def write_down(request):
        if log:
            entry = {"method": request.method, "path": request.url.raw_path.decode(), "body": request.read().decode()}
            with open(log, "a") as file:
                file.write(json.dumps(entry) + "\n")

    made = httpx.Client(base_url=host, timeout=60, event_hooks={"request": [write_down]})
    return MemoryClient(api_key=key, host=host, client=made)


def check(what, holds, seen):
    if not holds:
        raise SystemExit(f"FAILED: {what}: {seen}")
    print(f"ok: {what}")


def walk(memory):
    from mem0.exceptions import MemoryNotFoundError

    talk = [
        {"role": "user", "content": "I keep the spare key behind the boiler."},
        {"role": "assistant", "content": "I will remember that."},
    ]
    added = memory.add(talk, user_id="ana", metadata={"topic": "home"}, infer=False)
    check("add", [one["event"] for one in added["results"]] == ["ADD", "ADD"], added)
    ben = memory.add("The gate code is 4471.", user_id="ben", app_id="door", timestamp=1798761600)
    check("add a text", len(ben["results"]) == 1, ben)

    found = memory.search("Where is the spare key?", filters={"user_id": "ana"}, top_k=3)
    first = found["results"][0]
    check("search", first["memory"] == talk[0]["content"] and 0 <= first["score"] <= 1, found)
    found = memory.search("gate code", filters={"AND": [{"user_id": "ana"}, {"topic": "home"}]})
    check("search stays with its user", all(one["user_id"] == "ana" for one in found["results"]), found)
    found = memory.search("gate code", filters={"user_id": "*"}, threshold=0.99)
    check("search with a threshold", found["results"] == [], found)

    page = memory.get_all(filters={"user_id": "ana"}, page=2, page_size=1)
    check("get_all", (page["count"], len(page["results"]), page["next"]) == (2, 1, None), page)
    everybody = memory.get_all(filters={"OR": [{"user_id": "ana"}, {"app_id": "door"}]})
    check("get_all with a filter", everybody["count"] == 3, everybody)

    identity = first["id"]
    one = memory.get(identity)
    check("get", (one["memory"], one["metadata"]["topic"]) == (talk[0]["content"], "home"), one)
    changed = memory.update(identity, text="I keep the spare key in the shed.", metadata={"topic": "garden"})
    check("update", changed["memory"].endswith("shed."), changed)
    history = memory.history(identity)
    check("history", history[-1]["new_memory"].endswith("shed."), history)
    found = memory.search("Where is the spare key?", filters={"topic": "garden"})
    check("search after update", found["results"][0]["memory"].endswith("shed."), found)

    rate(memory, identity)
    several(memory)

    gone = memory.delete(identity)
    check("delete", "deleted" in gone["message"], gone)
    try:
        check("get after delete", False, memory.get(identity))
    except MemoryNotFoundError:
        print("ok: get after delete")
    memory.delete_all(user_id="ana")
    left = memory.get_all(filters={})
    check("delete_all", [one["user_id"] for one in left["results"]] == ["ben"], left)

    owners = {(one["type"], one["name"]): one["total_memories"] for one in memory.users()["results"]}
    check("users", owners == {("user", "ben"): 1, ("app", "door"): 1}, owners)
    memory.reset()
    left = memory.get_all(filters={})
    check("reset", left["count"] == 0, left)


def rate(memory, identity):
    """Feedback goes to the newest search that showed the memory."""
    recall = memory.search("Where is the spare key?", filters={"user_id": "ana"})["results"][0]["recall_id"]
    rated = memory.feedback(identity, feedback="POSITIVE", feedback_reason="It was there.")
    check("feedback", (rated["recall_id"], rated["feedback"]) == (recall, "POSITIVE"), rated)
    unseen = memory.add("The bins go out on Monday.", user_id="cleo")["results"][0]["id"]
    try:
        check("feedback for what no search showed", False, memory.feedback(unseen, feedback="NEGATIVE"))
    except Exception as refused:
        check("feedback for what no search showed", "search for something first" in str(refused), refused)


def several(memory):
    added = memory.add([{"role": "user", "content": text} for text in ("red", "green")], user_id="cleo")
    ids = [one["id"] for one in added["results"]]
    changed = memory.batch_update([{"memory_id": ids[0], "text": "dark red"}, {"memory_id": ids[1], "metadata": {"n": 1}}])
    check("batch_update", "2" in changed["message"], changed)
    check("batch_update changed", memory.get(ids[0])["memory"] == "dark red", memory.get(ids[0]))
    gone = memory.batch_delete([{"memory_id": one} for one in ids])
    check("batch_delete", "2" in gone["message"], gone)
    memory.delete_users(user_id="cleo")
    left = memory.get_all(filters={"user_id": "cleo"})
    check("delete_users", left["count"] == 0, left)


if __name__ == "__main__":
    main()
