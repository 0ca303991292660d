"""A language server that knows UTF-16 only: one diagnostic a document, nothing else. For tests beside ours."""

import json
import sys


def read():
    length = 0
    while (line := sys.stdin.buffer.readline()) not in (b"\r\n", b""):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return json.loads(sys.stdin.buffer.read(length)) if length else None


def send(**message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    sys.stdout.buffer.flush()


while (message := read()) is not None:
    method = message.get("method")
    if method == "exit":
        break
    if method == "initialize":
        capabilities = {"positionEncoding": "utf-16", "textDocumentSync": 2}
        send(id=message["id"], result={"capabilities": capabilities})
    elif method == "textDocument/didOpen":
        start, end = {"line": 4, "character": 4}, {"line": 4, "character": 11}
        diagnostic = {"range": {"start": start, "end": end}, "message": "from the other server", "severity": 2}
        uri = message["params"]["textDocument"]["uri"]
        send(method="textDocument/publishDiagnostics", params={"uri": uri, "diagnostics": [diagnostic]})
    elif "id" in message and method:
        send(id=message["id"], result=None)
