"""An OpenAI-compatible embeddings endpoint of hashed words, for checks of the server: no weights, no network.

Prints its base address, then serves until it is ended."""

import http.server
import json
import re
import zlib

DIMENSION = 256


def vector(text):
    counts = [0.01] * DIMENSION
    for word in re.findall(r"\w+", text.lower()):
        counts[zlib.crc32(word.encode("utf-8", "surrogatepass")) % DIMENSION] += 1.0
    return counts


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        texts = json.loads(self.rfile.read(int(self.headers["content-length"])))["input"]
        texts = [texts] if isinstance(texts, str) else texts
        data = [{"index": i, "embedding": vector(text)} for i, text in enumerate(texts)]
        body = json.dumps({"data": data}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
    server.serve_forever()
