#!/usr/bin/env python3
"""A scripted agent talks through `earmark proxy` to a model that cites with a given precision and recall.

    scripts/proxy_agent.py LOCOMO [--sample N] [--turns 200] [--binary target/release/earmark] [--out FOLDER]

LOCOMO is the official locomo10.json (or .json.xz). The turns of one conversation are remembered, then each of its
questions is one chat call (once more from the first when they run out, in other words). The model behind the proxy is this script: it
looks which numbered lines of the injected context are gold, and cites each with probability 0.86 and others so
often that 88 % of its citations are right; it calls nothing of Earmark. Before each call the static and the served
five are compared on the same memory. The encoder comes from EARMARK_* variables or the default. Standard library only.
"""

import argparse
import http.client
import http.server
import json
import lzma
import os
import pathlib
import random
import re
import subprocess
import tempfile
import threading

RECALL, PRECISION = 0.86, 0.88


def main():
    options = arguments()
    turns, questions = read(options.locomo, options.sample)
    questions += [("Once more, please: " + text, answer, gold) for text, answer, gold in questions]
    model = Model(questions, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"EARMARK_DATA_DIR": folder}
        remember(options.binary, environment, turns)
        with model.serve() as upstream:
            with Program(options.binary, environment, ["proxy", "--upstream", upstream]) as proxy:
                with Program(options.binary, environment, ["serve"]) as server:
                    rows = [ask(proxy, server, questions[i], i) for i in range(options.turns)]
                    status = server.get("/v1/learning")
    summary = summarise(rows, status, options, len(turns), len(questions) // 2)
    print(json.dumps(summary, indent=1))
    if options.out:
        write(pathlib.Path(options.out), rows, summary)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("locomo")
    parser.add_argument("--sample", type=int, default=3)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--binary", default="target/release/earmark")
    parser.add_argument("--out")
    return parser.parse_args()


def read(path, sample):
    """Turns as (author, text), and questions as (text, answer, gold texts)."""
    opened = lzma.open(path) if path.endswith(".xz") else open(path, "rb")
    with opened as file:
        item = json.load(file)[sample]
    talk, texts, turns = item["conversation"], {}, []
    sessions = sorted((key for key in talk if re.fullmatch(r"session_\d+", key)), key=lambda key: int(key[8:]))
    for turn in (turn for session in sessions for turn in talk[session]):
        caption = f" [shares {turn['blip_caption']}]" if turn.get("blip_caption") else ""
        texts[turn["dia_id"]] = turn["text"] + caption
        turns.append((turn["speaker"], texts[turn["dia_id"]]))
    questions = []
    for entry in item["qa"]:
        ids = {f"D{int(a)}:{int(b)}" for line in entry.get("evidence", []) for a, b in re.findall(r"D:?(\d+):(\d+)", line)}
        gold = {texts[name] for name in ids if name in texts}
        if gold and entry["category"] != 5:
            questions.append((entry["question"], str(entry["answer"]), gold))
    random.Random(1).shuffle(questions)
    return turns, questions


def remember(binary, environment, turns):
    lines = "".join(json.dumps({"content": text, "author": author}) + "\n" for author, text in turns)
    subprocess.run([binary, "remember", "--jsonl", "-", "--quiet"], input=lines.encode(), env=environment, check=True,
                   stdout=subprocess.DEVNULL)


class Program:
    """`earmark serve` or `earmark proxy` on a free port of loopback."""

    def __init__(self, binary, environment, command):
        command = [binary, *command, "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            found = re.search(r"listening on http://([^ /]+)", line)
            if found:
                self.address = found.group(1)
                break
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.address, timeout=120)
        headers = {"content-type": "application/json"}
        connection.request(method, path, json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 200, (answer.status, text)
        return text

    def get(self, path):
        return json.loads(self.request("GET", path))


class Model:
    """The model behind the proxy: knows the answers, and cites with errors."""

    def __init__(self, questions, seed):
        self.known = {text: (answer, gold) for text, answer, gold in questions}
        self.random = random.Random(seed)

    def serve(self):
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                pieces = re.findall(r"\S+\s*", model.answer(body["messages"]))
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                for piece in pieces:
                    chunk = {"choices": [{"index": 0, "delta": {"content": piece}}]}
                    self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
                self.wfile.write(b"data: [DONE]\n\n")
                self.close_connection = True

            def log_message(self, *_):
                pass

        return Serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler))

    def answer(self, messages):
        answer, gold = self.known[messages[-1]["content"]]
        context = next((m["content"] for m in messages if m["role"] == "system"), "")
        lines = re.split(r"\n(?=\[\d+\] )", "\n" + context.split("\n\n", 1)[-1])
        shown = [(int(m.group(1)), m.group(2) in gold or line[len(m.group(1)) + 3:] in gold)
                 for m, line in ((re.match(r"\[(\d+)\] (?:[^:\n]*: )?(.*)", line, re.S), line) for line in lines) if m]
        n = sum(is_gold for _, is_gold in shown)
        others = len(shown) - n
        wrong = min(1.0, n * RECALL * (1 - PRECISION) / (others * PRECISION)) if others else 0.0
        cited = [place for place, is_gold in shown if self.random.random() < (RECALL if is_gold else wrong)]
        return answer + " " + ("".join(f"[{place}]" for place in cited) or "[NO_CITE]")


class Serving:
    def __init__(self, server):
        self.server = server
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def __enter__(self):
        return f"http://127.0.0.1:{self.server.server_port}/v1"

    def __exit__(self, *_):
        self.server.shutdown()


def ask(proxy, server, question, turn):
    """One call through the proxy, and what the memory had for it."""
    text, _, gold = question
    body = {"model": "scripted", "stream": True, "messages": [{"role": "user", "content": text}]}
    answer = proxy.request("POST", "/v1/chat/completions", body)
    assert b"[DONE]" in answer
    recall = server.get("/v1/recalls?limit=1")["recalls"][0]
    assert recall["query"] == text, (recall["query"], text)
    explained = server.get(f"/v1/recalls/{recall['recall_id']}/explain")
    contents = {c["id"]: c["content"] for c in explained["candidates"]}
    served = {contents[name] for name in recall["rounds"][0]["slate"] if name in contents}
    static = {c["content"] for c in explained["candidates"] if c["base_rank"] <= 5}
    return {"turn": turn + 1, "static_all": gold <= static, "served_all": gold <= served,
            "static_any": bool(gold & static), "served_any": bool(gold & served),
            "learning_version": recall["learning_version"]}


def summarise(rows, status, options, memories, questions):
    def share(key, part):
        return round(100 * sum(row[key] for row in part) / len(part), 1)

    quarters = [rows[i * len(rows) // 4:(i + 1) * len(rows) // 4] for i in range(4)]
    keys = ["static_all", "served_all", "static_any", "served_any"]
    return {"turns": len(rows), "memories": memories, "questions": questions, "sample": options.sample,
            "seed": options.seed, "recalls": status["recalls"], "closed": status["experiences"],
            "closed_share": round(100 * status["experiences"] / status["recalls"], 1),
            "all_turns": {key: share(key, rows) for key in keys},
            "quarters": [{key: share(key, part) for key in keys} for part in quarters],
            "gate": status["gate"], "learning_version": status["version"]}


def write(folder, rows, summary):
    folder.mkdir(parents=True, exist_ok=True)
    keys = list(rows[0])
    lines = ["\t".join(keys)] + ["\t".join(str(int(row[key])) for key in keys) for row in rows]
    (folder / "rows.tsv").write_text("\n".join(lines) + "\n")
    (folder / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    (folder / "curve.svg").write_text(figure(rows))


def figure(rows, window=50):
    """Moving means of both orders, as an SVG."""
    width, height, left, top = 640, 300, 46, 24

    def points(key):
        means = [(i + 1, sum(r[key] for r in rows[max(0, i + 1 - window):i + 1]) / min(window, i + 1))
                 for i in range(9, len(rows))]
        return " ".join(f"{left + (width - left - 90) * i / len(rows):.1f},{top + (height - top - 40) * (1 - y):.1f}"
                        for i, y in means)

    def line(key, colour, dash=""):
        return f'<polyline fill="none" stroke="{colour}" stroke-width="2"{dash} points="{points(key)}"/>'

    grid = "".join(f'<line x1="{left}" x2="{width - 90}" y1="{y}" y2="{y}" stroke="#ddd"/>'
                   f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{share} %</text>'
                   for share in (0, 25, 50, 75, 100) for y in [top + (height - top - 40) * (1 - share / 100)])
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
            f'font-size="12"><rect width="{width}" height="{height}" fill="#fff"/>{grid}'
            f'{line("static_any", "#8a6d2f", " stroke-dasharray=" + chr(34) + "6 4" + chr(34))}'
            f'{line("served_any", "#2f5d8a")}'
            f'<text x="{width - 84}" y="40" fill="#2f5d8a">served</text>'
            f'<text x="{width - 84}" y="58" fill="#8a6d2f">static</text>'
            f'<text x="{left}" y="{height - 8}">turns (moving mean of {window}): a gold turn among the five, of 1 to {len(rows)}</text></svg>\n')


if __name__ == "__main__":
    main()
