#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tracectl fleet and tracectl report --fleet on a store that is down, starts, refuses or answers nonsense: one sentence and the
exit code of tracectl(1). check.fleet runs it.

    tests/fleet/failures.py LIBEXEC
"""
import http.server
import os
import subprocess
import sys
import threading

VECTOR = '{"status":"success","data":{"resultType":"vector","result":[%s]}}'
# What the store answers, the exit code, and what the sentence has.
CASES = [
    (401, "<html><script>var a=[{b:[{c:1}]}]</script></html>", 1, "refuses access (HTTP 401)"),
    (403, "{}", 1, "refuses access (HTTP 403)"),
    (503, "Service Unavailable", 3, "is not ready (HTTP 503)"),
    (404, "404 page not found", 1, "no Prometheus API (HTTP 404)"),
    (302, "", 1, "no Prometheus API (HTTP 302)"),
    (200, "", 1, "no Prometheus API"),
    (200, "<!doctype html>" + '{[("' * 5000, 1, "no Prometheus API"),
    (200, VECTOR[:-3] + '{"metric":{},"val', 1, "no Prometheus API"),
    (200, '{"status":"success","data":{"resultType":"matrix","result":[]}}', 1, "no Prometheus API"),
    (422, '{"status":"error","error":"query processing would load too many samples"}', 1, "refuses a query (HTTP 422): query processing"),
    (200, VECTOR % "", 0, ""),
]


class Store(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = self.server.body.encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    server = http.server.HTTPServer(("127.0.0.1", 0), Store)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    here = f"http://127.0.0.1:{server.server_port}"
    cases = [(here, *case) for case in CASES]
    cases += [("http://127.0.0.1:1", 0, "", 3, "no store answers at http://127.0.0.1:1/"), ("ftp://store", 0, "", 2, "begins with http:// or https://"),
              ("https" + here[4:], 0, "", 3, "no store answers at https://")]
    # The administrator's file and proxy are no part of this.
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    wrong = 0
    for url, server.status, server.body, code, part in cases:
        for command in (["fleet", "--url", url], ["report", "--fleet", url]):
            done = subprocess.run([f"{sys.argv[1]}/{command[0]}"] + command[1:], capture_output=True, text=True, env=environment, timeout=60)
            lines = done.stderr.splitlines()
            if done.returncode != code or len(lines) != (code != 0) or part not in done.stderr:
                print(f"{command[0]}, HTTP {server.status} {server.body[:40]!r} of {url}: exit code {done.returncode}, not {code}; {lines}")
                wrong += 1
    print(f"{len(cases)} answers, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
