#!/usr/bin/env python3
"""Measures Tidemark against other tools on this machine, interleaved, and writes docs/benchmarks.md.

The server is pinned to core 0, the generator to core 1. Every comparison is a ratio of neighbours in one
run (at least five pairs); the table gives the median and the range. All traffic stays on 127.0.0.1.
"""

import argparse
import datetime
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

PAIRS = 5
SERVER_CORE, GENERATOR_CORE = "0", "1"


# ---------------------------------------------------------------- processes


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def pinned(core, *command):
    return ["taskset", "-c", core, *command] if core else list(command)


def inside(host):
    """What puts a command into this network namespace."""
    return ["ip", "netns", "exec", host] if host else []


def finish(process, grace=10):
    """Ends one process of ours by its pid."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Nginx:
    """One worker on the server's core, two small files in memory, no access log."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="tidemark-bench-")
        os.chmod(self.folder, 0o755)
        self.port = free_port()
        with open(f"{self.folder}/tiny.txt", "w") as file:
            file.write("hello\n")
        with open(f"{self.folder}/nginx.conf", "w") as file:
            file.write(
                f"""
daemon off; worker_processes 1; pid {self.folder}/pid; error_log {self.folder}/error.log crit;
worker_rlimit_nofile 20000;
events {{ worker_connections 16000; }}
http {{
  access_log off; sendfile on; open_file_cache max=100; keepalive_requests 100000000; keepalive_timeout 650s;
  client_body_temp_path {self.folder}/b; proxy_temp_path {self.folder}/p; fastcgi_temp_path {self.folder}/f;
  uwsgi_temp_path {self.folder}/u; scgi_temp_path {self.folder}/s;
  server {{ listen 127.0.0.1:{self.port} backlog=4096; root {self.folder}; }}
}}
"""
            )
        self.process = subprocess.Popen(
            pinned(SERVER_CORE, "nginx", "-p", self.folder, "-c", f"{self.folder}/nginx.conf"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(lambda: get(self.url) == 200)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/tiny.txt"

    def worker(self):
        children = open(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read().split()
        return int(children[0])

    def close(self):
        finish(self.process)
        shutil.rmtree(self.folder, ignore_errors=True)


class Tidemark:
    """`tidemark serve` on ports of its own; `core` None leaves it unpinned, `host` puts it into a network namespace."""

    def __init__(self, binary, core=GENERATOR_CORE, data=None, receivers=False, host=None, more=()):
        self.own_data = data is None
        self.host = host
        self.data = data or tempfile.mkdtemp(prefix="tidemark-bench-")
        os.chmod(self.data, 0o700)
        started = time.monotonic()
        self.process = subprocess.Popen(
            pinned(core, *inside(host), binary, "serve", "--dashboard", "127.0.0.1:0", "--workload", "127.0.0.1:0",
                   "--receiver", receivers or "off", "--receiver3", "off", "--data", self.data, *more),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        line = self.process.stdout.readline()
        self.start_s = time.monotonic() - started
        self.dashboard = re.search(r"dashboard=(\S+)", line).group(1).rstrip("/")
        self.workload = re.search(r"workload=(\S+)", line).group(1).rstrip("/")
        self.receiver = int(re.search(r"receiver=\S+:(\d+)", line).group(1)) if receivers else None

    def cpu_s(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_kib(self, key="VmHWM"):
        return int(re.search(rf"{key}:\s+(\d+)", open(f"/proc/{self.process.pid}/status").read()).group(1))

    def ask(self, path, body=None):
        """One call of the API, with a body a POST."""
        data = ["-H", "Content-Type: application/json", "-d", json.dumps(body)] if body else []
        command = [*inside(self.host), "curl", "-sS", *data, self.dashboard + path]
        reply = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
        return reply if "id" in reply else sys.exit(f"{path}: {reply}")

    def run(self, plan, during=None):
        """One run to its end; adds the whole process's CPU seconds to what the API says."""
        before = self.cpu_s()
        run = self.ask("/api/runs", {"plan": plan})
        while run["state"] in ("queued", "running"):
            if during:
                during(run)
            time.sleep(0.2)
            run = self.ask(f"/api/runs/{run['id']}")
        if run["state"] != "finished":
            sys.exit(f"run ended {run['state']}: {run['error']}")
        run["process_cpu_s"] = self.cpu_s() - before
        return run

    def close(self):
        finish(self.process)
        if self.own_data:
            shutil.rmtree(self.data, ignore_errors=True)


def tool(command, core=GENERATOR_CORE, timeout=300):
    """Runs another tool; gives its output, its CPU seconds and its peak memory in KiB."""
    process = subprocess.Popen(
        pinned(core, *command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    watchdog = threading.Timer(timeout, process.kill)
    watchdog.start()
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    watchdog.cancel()
    return output, usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            reply.read()
            return reply.status
    except (urllib.error.URLError, OSError):
        return None


def wait_for(condition, seconds=20):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            sys.exit("a server did not start")
        time.sleep(0.05)


class Capture:
    """Arrivals on the wire, stamped by the kernel in nanoseconds."""

    def __init__(self, expression):
        self.file = tempfile.mktemp(suffix=".pcap")
        self.process = subprocess.Popen(
            pinned(SERVER_CORE, "tcpdump", "-i", "lo", "-w", self.file, "-s", "80", "-B", "65536",
                   "--time-stamp-precision=nano", "--immediate-mode", expression),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        while "listening on" not in self.process.stderr.readline():
            pass

    def times(self):
        """When each packet passed, in s."""
        return [packet[0] for packet in self.packets(headers=False)]

    def packets(self, headers=True):
        """Pairs of time in s and the TCP header with its addresses' ports: (time, source, destination, flags, payload)."""
        time.sleep(0.5)
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        with open(self.file, "rb") as file:
            data = file.read()
        os.unlink(self.file)
        assert struct.unpack_from("<I", data)[0] == 0xA1B23C4D
        at, found = 24, []
        while at < len(data):
            seconds, nanos, kept, _ = struct.unpack_from("<IIII", data, at)
            frame = data[at + 16 : at + 16 + kept]
            at += 16 + kept
            if not headers:
                found.append((seconds + nanos / 1e9,))
                continue
            ip = frame[14:]
            head = (ip[0] & 15) * 4
            total = struct.unpack_from(">H", ip, 2)[0]
            source, destination = struct.unpack_from(">HH", ip, head)
            offset, flags = ip[head + 12] >> 4, ip[head + 13]
            found.append((seconds + nanos / 1e9, source, destination, flags, total - head - offset * 4))
        return found


# ---------------------------------------------------------------- figures


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, int(-(-share * len(ordered) // 1)) - 1))]


def spread(values, digits=3):
    ordered = sorted(values)
    return f"{statistics.median(ordered):.{digits}g} [{ordered[0]:.{digits}g}..{ordered[-1]:.{digits}g}]"


ROWS = {}


def row(name):
    def keep(function):
        ROWS[name] = function
        return function

    return keep


def line(what, ours, theirs, ratios, goal, reached, note=""):
    median = statistics.median(ratios)
    return {
        "what": what, "ours": ours, "theirs": theirs, "ratio": spread(ratios), "goal": goal,
        "reached": "reached" if reached(median) else "**not reached**", "note": note,
    }


# ---------------------------------------------------------------- rows


@row("pacing-new")
def pacing_new(binary):
    """Gaps between SYNs at 1,000 new connections per second, and the CPU that it takes."""
    nginx, tidemark = Nginx(), Tidemark(binary)
    expression = f"dst port {nginx.port} and tcp[13] & 18 == 2"
    gaps = {"tidemark": [], "oha": [], "httperf": []}
    cpu = {"tidemark": [], "oha": [], "httperf": []}
    for _ in range(PAIRS):
        for name in gaps:
            capture = Capture(expression)
            if name == "tidemark":
                run = tidemark.run({"kind": "rate", "url": nginx.url, "rate": 1000, "num_conns": 4000})
                seconds = run["process_cpu_s"]
            elif name == "oha":
                _, seconds, _ = tool(["oha", "--no-tui", "-q", "1000", "-z", "4s", "-c", "50", "--disable-keepalive", nginx.url])
            else:
                _, seconds, _ = tool(["httperf", "--server", "127.0.0.1", "--port", str(nginx.port), "--uri", "/tiny.txt", "--num-conns", "4000", "--rate", "1000"])
            times = [packet[0] for packet in capture.packets()][:3990]
            gaps[name].append(statistics.stdev(b - a for a, b in zip(times, times[1:])) * 1e6)
            cpu[name].append(seconds)
    nginx.close(), tidemark.close()
    return [
        line("1,000/s, new connections: standard deviation of the gaps on the wire, µs", spread(gaps["tidemark"]), f"oha {spread(gaps['oha'])}; httperf {spread(gaps['httperf'])}",
             [a / b for a, b in zip(gaps["tidemark"], gaps["oha"])], "≤ 0.25 of oha", lambda m: m <= 0.25),
        line("the same: CPU seconds of the whole process for 4,000 requests", spread(cpu["tidemark"]), f"httperf {spread(cpu['httperf'])}; oha {spread(cpu['oha'])}",
             [a / b for a, b in zip(cpu["tidemark"], cpu["httperf"])], "≤ 0.3 of httperf", lambda m: m <= 0.3),
    ]


@row("pacing-kept")
def pacing_kept(binary):
    """How far behind the schedule requests are on the wire at 20,000 per second over kept connections."""
    nginx, tidemark = Nginx(), Tidemark(binary)
    expression = f"dst port {nginx.port} and tcp[13] & 8 == 8"
    lag = {"tidemark": [], "oha": []}
    for _ in range(PAIRS):
        for name in lag:
            capture = Capture(expression)
            if name == "tidemark":
                tidemark.run({"kind": "rate", "url": nginx.url, "rate": 20000, "num_conns": 80000, "reuse": True})
            else:
                tool(["oha", "--no-tui", "-q", "20000", "-z", "4s", "-c", "50", nginx.url])
            times = [packet[0] for packet in capture.packets()]
            behind = [t - times[0] - index / 20000 for index, t in enumerate(times)]
            lag[name].append((quantile(behind, 0.99) - min(behind)) * 1e3)
    nginx.close(), tidemark.close()
    return [
        line("20,000/s, kept connections: lag behind the schedule on the wire, p99, ms", spread(lag["tidemark"]), f"oha {spread(lag['oha'])}",
             [a / b for a, b in zip(lag["tidemark"], lag["oha"])], "≤ 0.5 of oha", lambda m: m <= 0.5),
    ]


@row("stall")
def stall(binary):
    """A server that stalls for one second: our percentiles against the times on the wire."""
    nginx, tidemark = Nginx(), Tidemark(binary)
    worker, worst, details = nginx.worker(), [], []
    for _ in range(PAIRS):
        capture = Capture(f"port {nginx.port}")
        state = {"at": None}

        def during(run, state=state):
            if run["state"] == "running" and state["at"] is None:
                state["at"] = threading.Timer(5, lambda: (os.kill(worker, signal.SIGSTOP), time.sleep(1), os.kill(worker, signal.SIGCONT)))
                state["at"].start()

        run = tidemark.run({"kind": "rate", "url": nginx.url, "rate": 200, "num_conns": 2000}, during)
        begun, truth = {}, []
        for when, source, destination, flags, payload in capture.packets():
            if destination == nginx.port and flags & 18 == 2:
                # A port may be used again; a SYN sent again belongs to the first.
                begun.setdefault(source, when)
            elif source == nginx.port and payload > 0 and destination in begun:
                truth.append((when - begun.pop(destination)) * 1e3)
        latency = run["summary"]["latency_ms"]
        pairs = [(latency["avg"], statistics.mean(truth)), (latency["p95"], quantile(truth, 0.95)), (latency["p99"], quantile(truth, 0.99)), (latency["max"], max(truth))]
        worst.append(max(abs(a / b - 1) for a, b in pairs))
        details.append(pairs)
    nginx.close(), tidemark.close()
    ours, theirs = details[0][2]
    return [
        line("a 1 s stall in 10 s at 200/s: largest deviation of mean, p95, p99, max from the wire", f"p99 {ours:.4g} ms", f"wire p99 {theirs:.4g} ms", worst, "≤ 0.02", lambda m: m <= 0.02),
    ]


def wrk_request(nginx, connections, *extra):
    output, seconds, _ = tool(["wrk", "-t1", f"-c{connections}", "-d3s", *extra, nginx.url])
    return seconds / int(re.search(r"(\d+) requests in", output).group(1)) * 1e6


@row("cpu")
def cpu(binary):
    """CPU time of the generator per request in a closed loop, against wrk."""
    rows = []
    for what, keep, extra in [("kept connections", True, []), ("new connections", False, ["-H", "Connection: close"])]:
        nginx, tidemark = Nginx(), Tidemark(binary)
        ours, theirs = [], []
        for _ in range(PAIRS):
            run = tidemark.run({"kind": "users", "url": nginx.url, "concurrent": 128, "duration_s": 3, "keep_alive": keep})
            ours.append(run["process_cpu_s"] / run["summary"]["transactions"] * 1e6)
            theirs.append(wrk_request(nginx, 128, *extra))
        nginx.close(), tidemark.close()
        rows.append(line(f"closed loop, 128 {what}: CPU µs per request, the whole process with its notebook", spread(ours), f"wrk {spread(theirs)}",
                         [a / b for a, b in zip(ours, theirs)], "≤ 1.0 of wrk", lambda m: m <= 1.0))
    return rows


@row("memory")
def memory(binary):
    """Peak memory over 3,000,000 requests, against oha."""
    nginx = Nginx()
    ours, theirs, growth = [], [], []
    for _ in range(PAIRS):
        tidemark = Tidemark(binary)
        seen = []
        tidemark.run({"kind": "users", "url": nginx.url, "concurrent": 50, "reps": 60000, "keep_alive": True},
                     lambda run: seen.append((run["progress"]["done"], tidemark.memory_kib("VmRSS"))))
        ours.append(tidemark.memory_kib() / 1024)
        early = [kib for done, kib in seen if 0.35 <= done <= 0.6] or [seen[len(seen) // 2][1]]
        growth.append(seen[-1][1] / max(early))
        tidemark.close()
        _, _, kib = tool(["oha", "--no-tui", "-n", "3000000", "-c", "50", nginx.url])
        theirs.append(kib / 1024)
    nginx.close()
    return [
        line("3,000,000 requests: peak memory, MiB", spread(ours), f"oha {spread(theirs)}", [a / b for a, b in zip(ours, theirs)], "≤ 0.2 of oha", lambda m: m <= 0.2),
        line("the same: memory at the end ÷ memory half-way", spread(growth), "–", growth, "≤ 1.1 (flat)", lambda m: m <= 1.1),
    ]


@row("workload")
def workload(binary):
    """Pictures per second at full load, and the health check meanwhile."""
    cores = len(os.sched_getaffinity(0))
    shares, health, rates, costs = [], [], [], []
    for _ in range(PAIRS):
        tidemark = Tidemark(binary, core=None)
        stop = threading.Event()
        times = []

        def poll():
            while not stop.is_set():
                begun = time.monotonic()
                get(tidemark.workload + "/health-check")
                times.append((time.monotonic() - begun) * 1e3)
                time.sleep(0.05)

        thread = threading.Thread(target=poll)
        load = subprocess.Popen(["wrk", "-t1", f"-c{4 * cores}", "-d16s", "--timeout", "60s", tidemark.workload + "/"], stdout=subprocess.DEVNULL)
        time.sleep(3)
        thread.start()
        served = lambda: int(re.search(r"^tidemark_workload_served_total(?:\{[^}]*\})? (\d+)", urllib.request.urlopen(tidemark.dashboard + "/metrics").read().decode(), re.M).group(1))
        first, cpu, begun = served(), tidemark.cpu_s(), time.monotonic()
        time.sleep(10)
        renders, used, wall = served() - first, tidemark.cpu_s() - cpu, time.monotonic() - begun
        stop.set()
        thread.join()
        finish(load)
        tidemark.close()
        rates.append(renders / wall)
        costs.append(used / renders)
        shares.append(rates[-1] / (cores / costs[-1]))
        health.append(quantile(times, 0.99))
    return [
        line(f"workload at full load: pictures/s ÷ ({cores} cores ÷ CPU-seconds of a picture)", f"{spread(rates)} /s at {spread(costs)} CPU-s", "–", shares, "≥ 0.97", lambda m: m >= 0.97),
        line("`/health-check` meanwhile, p99, ms", spread(health), "–", health, "≤ 10 ms", lambda m: m <= 10),
    ]


def page_times(url, count):
    times = []
    for _ in range(count):
        begun = time.monotonic()
        size = len(urllib.request.urlopen(url).read())
        times.append((time.monotonic() - begun) * 1e3)
    return times, size


@row("pages")
def pages(binary):
    """The page of a run of 1,000,000 requests, and the history of 100,000 runs."""
    nginx, tidemark = Nginx(), Tidemark(binary, core=None)
    run = tidemark.run({"kind": "users", "url": nginx.url, "concurrent": 50, "reps": 20000, "keep_alive": True})
    medians = []
    for _ in range(PAIRS):
        times, size = page_times(f"{tidemark.dashboard}/runs/{run['id']}", 20)
        medians.append(quantile(times, 0.99))
    data = tidemark.data
    tidemark.own_data = False
    tidemark.close()
    base = sqlite3.connect(f"{data}/tidemark.db")
    columns = [column[1] for column in base.execute("PRAGMA table_info(runs)")]
    others = ", ".join(c for c in columns if c not in ("id", "form_token"))
    documents = ", ".join(c[1] for c in base.execute("PRAGMA table_info(run_documents)") if c[1] not in ("run", "series"))
    with base:
        base.execute(f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) INSERT INTO runs ({others}) SELECT {others} FROM runs, n WHERE id = ?", [run["id"]])
        base.execute(f"INSERT INTO run_documents (run, {documents}) SELECT id, {documents} FROM runs, run_documents WHERE run = ? AND id > ?", [run["id"], run["id"]])
    base.close()
    tidemark = Tidemark(binary, core=None, data=data)
    history = []
    for _ in range(PAIRS):
        times, _ = page_times(f"{tidemark.dashboard}/runs", 40)
        history.append(quantile(times, 0.99))
    tidemark.close()
    nginx.close()
    shutil.rmtree(data, ignore_errors=True)
    return [
        line(f"page of a run of 1,000,000 requests ({size / 1000:.0f} kB), p99 of 20, ms", spread(medians), "–", medians, "≤ 100 ms", lambda m: m <= 100),
        line("history with 100,000 runs, p99 of 40, ms", spread(history), "–", history, "≤ 20 ms", lambda m: m <= 20),
    ]


@row("start")
def start(binary):
    """From exec to the ready line; the size of the binary."""
    times = []
    for _ in range(2 * PAIRS):
        tidemark = Tidemark(binary, core=None)
        times.append(tidemark.start_s)
        tidemark.close()
    size = os.path.getsize(binary) / 1e6
    return [
        line("start to the ready line, s", spread(times), "–", times, "≤ 0.5 s", lambda m: m <= 0.5),
        line("size of the binary, MB", f"{size:.1f}", "–", [size], "≤ 20 MB", lambda m: m <= 20),
    ]


# ---------------------------------------------------------------- throughput


MINIMAL = r"""
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
int main(void) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t n = sizeof a;
  int l = socket(AF_INET, SOCK_STREAM, 0);
  size_t block = 1 << 20;
  char *buffer = calloc(1, block);
  bind(l, (void *)&a, n); listen(l, 1); getsockname(l, (void *)&a, &n);
  if (!fork()) {
    int c = accept(l, 0, 0);
    while (recv(c, buffer, block, MSG_TRUNC) > 0) {}
    _exit(0);
  }
  int s = socket(AF_INET, SOCK_STREAM, 0);
  connect(s, (void *)&a, n);
  double begun = now(), total = 0;
  while (now() - begun < 4) total += write(s, buffer, block);
  close(s); wait(0);
  printf("%f\n", total * 8 / (now() - begun));
  return 0;
}
"""


class Server:
    """A real iperf server, ended by its pid; counts its CPU."""

    def __init__(self, *command):
        self.port = free_port()
        self.process = subprocess.Popen(
            [*command, "-p", str(self.port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(0.5)

    def cpu_s(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self):
        finish(self.process)


def iperf(server, *more):
    """One run of a real iperf 2 client: bit/s by its last line, CPU seconds of both ends per GB."""
    before = server.cpu_s()
    output, seconds, _ = tool(["iperf", "-c", "127.0.0.1", "-p", str(server.port), "-t", "4", "-f", "k", *more], core=None)
    found = [text for text in output.splitlines() if "bits/sec" in text]
    sums = [text for text in found if "SUM" in text] or found
    rate = float(re.search(r"([\d.]+) Kbits/sec", sums[-1]).group(1)) * 1e3
    moved = rate * 4 / 8e9
    return rate, (seconds + server.cpu_s() - before) / moved


def iperf3(server, *more):
    output, _, _ = tool(["iperf3", "-c", "127.0.0.1", "-p", str(server.port), "-t", "4", "-J", *more], core=None)
    return json.loads(output)["end"]["sum_received"]["bits_per_second"]


class Pair:
    """Two Tidemarks: one measures, the other receives."""

    def __init__(self, binary):
        self.sender = Tidemark(binary, core=None)
        self.receiver = Tidemark(binary, core=None, receivers="127.0.0.1:0")
        self.port = self.receiver.receiver

    def run(self, port=None, **plan):
        before = self.receiver.cpu_s()
        run = self.sender.run({"kind": "throughput", "host": "127.0.0.1", "port": port or self.port, "duration_s": 4, **plan})
        moved = run["summary"]["bits_per_second"] * 4 / 8e9
        return run["summary"], (run["process_cpu_s"] + self.receiver.cpu_s() - before) / moved

    def rate(self, **plan):
        return self.run(**plan)[0]["bits_per_second"]

    def close(self):
        self.sender.close(), self.receiver.close()


def giga(values):
    return spread([value / 1e9 for value in values])


@row("tcp-one")
def tcp_one(binary):
    """One TCP stream over loopback, both ends ours, against iperf 2 at both ends."""
    pair, server = Pair(binary), Server("iperf", "-s")
    same, block, default, cost, theirs, their_cost = [], [], [], [], [], []
    for _ in range(PAIRS):
        rate, each = iperf(server)
        theirs.append(rate), their_cost.append(each)
        summary, each = pair.run(length_bytes=131072)
        block.append(summary["bits_per_second"])
        summary, each = pair.run()
        default.append(summary["bits_per_second"]), cost.append(each)
    pair.close(), server.close()
    ratio = lambda ours, others: [a / b for a, b in zip(ours, others)]
    return [
        line("TCP, 1 stream, block 128 KiB, copying, Gbit/s", giga(block), f"iperf 2 {giga(theirs)}", ratio(block, theirs), "≥ 1.05", lambda m: m >= 1.05),
        line("TCP, 1 stream, our default block of 1 MiB, copying, Gbit/s", giga(default), f"iperf 2 (128 KiB) {giga(theirs)}", ratio(default, theirs), "≥ 1.5", lambda m: m >= 1.5),
        line("the same: CPU seconds of both ends per GB", spread(cost), f"iperf 2 {spread(their_cost)}", ratio(cost, their_cost), "≤ 0.7", lambda m: m <= 0.7),
    ]


@row("tcp-discard")
def tcp_discard(binary):
    """One TCP stream whose receiver discards, against a program that does nothing else."""
    folder = tempfile.mkdtemp(prefix="tidemark-bench-")
    with open(f"{folder}/minimal.c", "w") as file:
        file.write(MINIMAL)
    subprocess.run(["gcc", "-O2", "-o", f"{folder}/minimal", f"{folder}/minimal.c"], check=True)
    pair, ours, theirs = Pair(binary), [], []
    for _ in range(PAIRS):
        theirs.append(float(tool([f"{folder}/minimal"], core=None)[0]))
        ours.append(pair.rate(receive="discard"))
    pair.close()
    shutil.rmtree(folder)
    return [line("TCP, 1 stream, 1 MiB, `discard`, Gbit/s", giga(ours), f"a minimal program {giga(theirs)}", [a / b for a, b in zip(ours, theirs)], "≥ 0.9", lambda m: m >= 0.9)]


@row("tcp-many")
def tcp_many(binary):
    """4 and 16 TCP streams, against iperf 2 and iperf 3."""
    pair, two, three, found = Pair(binary), Server("iperf", "-s"), Server("iperf3", "-s"), []
    for streams in (4, 16):
        ours, by_two, by_three = [], [], []
        for _ in range(PAIRS):
            by_two.append(iperf(two, "-P", str(streams))[0])
            by_three.append(iperf3(three, "-P", str(streams)))
            ours.append(pair.rate(streams=streams))
        what = f"TCP, {streams} streams, Gbit/s"
        found.append(line(what, giga(ours), f"iperf 2 {giga(by_two)}", [a / b for a, b in zip(ours, by_two)], "≥ 1.1", lambda m: m >= 1.1))
        found.append(line(what, giga(ours), f"iperf 3 {giga(by_three)}", [a / b for a, b in zip(ours, by_three)], "≥ 2", lambda m: m >= 2))
    pair.close(), two.close(), three.close()
    return found


@row("tcp-mixed")
def tcp_mixed(binary):
    """A real iperf at one end and ours at the other, against iperf at both."""
    pair, server = Pair(binary), Server("iperf", "-s")
    real, received, sent = [], [], []
    for _ in range(PAIRS):
        real.append(iperf(server)[0])
        before = pair.receiver
        output, _, _ = tool(["iperf", "-c", "127.0.0.1", "-p", str(before.receiver), "-t", "4", "-f", "k"], core=None)
        received.append(float(re.findall(r"([\d.]+) Kbits/sec", output)[-1]) * 1e3)
        sent.append(pair.rate(port=server.port))
    pair.close(), server.close()
    return [
        line("TCP, real client → our receiver, Gbit/s", giga(received), f"iperf 2 both ends {giga(real)}", [a / b for a, b in zip(received, real)], "≥ 1.0", lambda m: m >= 1.0),
        line("TCP, ours → `iperf -s`, Gbit/s", giga(sent), f"iperf 2 both ends {giga(real)}", [a / b for a, b in zip(sent, real)], "≥ 1.2", lambda m: m >= 1.2),
    ]


@row("udp-rate")
def udp_rate(binary):
    """Datagrams of 1470 bytes received per second, as fast as the sender can."""
    pair, server = Pair(binary), Server("iperf", "-s", "-u")
    theirs, ours, offload, lost = [], [], [], {"iperf 2": [], "ours": [], "offload": []}
    for _ in range(PAIRS):
        output, _, _ = tool(["iperf", "-c", "127.0.0.1", "-p", str(server.port), "-u", "-b", "20g", "-l", "1470", "-t", "4"], core=None)
        missing, all_ = map(int, re.findall(r"(\d+)/\s*(\d+) \(", output)[-1])
        theirs.append((all_ - missing) / 4), lost["iperf 2"].append(100 * missing / all_)
        for more, rates, name in (({"bandwidth_bits_per_second": 20e9}, ours, "ours"), ({"offload": True}, offload, "offload")):
            summary, _ = pair.run(protocol="udp", length_bytes=1470, **more)
            rates.append(summary["datagrams_received"] / summary["duration_s"]), lost[name].append(summary["lost_percent"])
    pair.close(), server.close()
    said = "; ".join(f"{name} {spread(values)} % lost" for name, values in lost.items())
    return [
        line("UDP, 1470 B, datagrams received per s", spread(ours), f"iperf 2 {spread(theirs)} ({said})", [a / b for a, b in zip(ours, theirs)], "≥ 1.3", lambda m: m >= 1.3),
        line("the same with `offload`", spread(offload), f"iperf 2 {spread(theirs)}", [a / b for a, b in zip(offload, theirs)], "≥ 8", lambda m: m >= 8),
    ]


@row("udp-gaps")
def udp_gaps(binary):
    """Gaps between datagrams on the wire at 100 Mbit/s."""
    pair, server, gaps = Pair(binary), Server("iperf", "-s", "-u"), {"tidemark": [], "iperf": []}
    for _ in range(PAIRS):
        for name in gaps:
            port = pair.port if name == "tidemark" else server.port
            capture = Capture(f"udp and dst port {port} and greater 1000")
            if name == "tidemark":
                pair.run(protocol="udp", bandwidth_bits_per_second=100e6)
            else:
                tool(["iperf", "-c", "127.0.0.1", "-p", str(port), "-u", "-b", "100m", "-t", "4"])
            times = capture.times()[:-1]
            gaps[name].append(statistics.stdev(b - a for a, b in zip(times, times[1:])) * 1e6)
    pair.close(), server.close()
    return [line("UDP at 100 Mbit/s: standard deviation of the gaps on the wire, µs", spread(gaps["tidemark"]), f"iperf 2 {spread(gaps['iperf'])}",
                 [a / b for a, b in zip(gaps["tidemark"], gaps["iperf"])], "≤ 0.5", lambda m: m <= 0.5)]


class Shaper:
    """Three network namespaces of our own: what the first sends to the last passes a token bucket in the middle one."""

    NEAR, FAR = "10.79.0.1", "10.79.1.1"

    def __init__(self, mbit):
        self.near, self.middle, self.far = (f"tm-bench-{os.getpid()}-{name}" for name in "abc")
        ip = lambda *words: subprocess.run(["ip", *words], check=True)
        for host in (self.near, self.middle, self.far):
            ip("netns", "add", host)
            ip("-n", host, "link", "set", "lo", "up")
        for host, side, address, gateway in ((self.near, "left", self.NEAR, "10.79.0.2"), (self.far, "right", self.FAR, "10.79.1.2")):
            ip("link", "add", "cable", "netns", host, "type", "veth", "peer", "name", side, "netns", self.middle)
            ip("-n", host, "address", "add", f"{address}/24", "dev", "cable")
            ip("-n", self.middle, "address", "add", f"{gateway}/24", "dev", side)
            ip("-n", host, "link", "set", "cable", "up")
            ip("-n", self.middle, "link", "set", side, "up")
            ip("-n", host, "route", "add", "default", "via", gateway)
        self.inside("sysctl", "-qw", "net.ipv4.ip_forward=1")
        self.inside("tc", "qdisc", "add", "dev", "right", "root", "tbf", "rate", f"{mbit}mbit", "burst", "64kb", "latency", "20ms")

    def inside(self, *command, host=None):
        return subprocess.run([*inside(host or self.middle), *command], check=True, stdout=subprocess.PIPE, text=True).stdout

    def counted(self):
        """Bytes and packets that left the bucket, packets that it dropped."""
        text = self.inside("tc", "-s", "qdisc", "show", "dev", "right")
        return [int(figure) for figure in re.search(r"Sent (\d+) bytes (\d+) pkt \(dropped (\d+)", text).groups()]

    def close(self):
        for host in (self.near, self.middle, self.far):
            subprocess.run(["ip", "netns", "delete", host])


@row("shaper")
def shaper(binary):
    """Through a token bucket: rate and loss against its counters, round trips against ping."""
    lab = Shaper(200)
    allow = ["--allow", "10.79.0.0/23", "--accept-from", "10.79.0.0/23"]
    sender = Tidemark(binary, core=None, host=lab.near, more=allow)
    receiver = Tidemark(binary, core=None, host=lab.far, receivers=f"{lab.FAR}:5001", more=allow)

    def between(plan):
        before = lab.counted()
        summary = sender.run({"host": lab.FAR, **plan})["summary"]
        return summary, [after - since for after, since in zip(lab.counted(), before)]

    rates, counted, apart, losses, dropped, points, ours, pings, off = ([] for _ in range(9))
    try:
        for _ in range(PAIRS):
            summary, (bytes_, packets, _) = between({"kind": "throughput", "port": 5001, "duration_s": 5})
            # Each packet carries 66 bytes of Ethernet, IP and TCP with timestamps.
            counted.append((bytes_ - 66 * packets) * 8 / summary["duration_s"])
            rates.append(summary["bits_per_second"])
            apart.append(abs(rates[-1] / counted[-1] - 1))
            summary, (_, packets, lost) = between(
                {"kind": "throughput", "port": 5001, "duration_s": 5, "protocol": "udp", "bandwidth_bits_per_second": 230e6})
            losses.append(summary["lost_percent"]), dropped.append(100 * lost / (packets + lost))
            points.append(abs(losses[-1] - dropped[-1]))
            summary, _ = between({"kind": "ping", "count": 50, "interval_s": 0.05})
            text = lab.inside("ping", "-c", "50", "-i", "0.05", lab.FAR, host=lab.near)
            ours.append(summary["rtt_ms"]["median"])
            pings.append(statistics.median(float(time) for time in re.findall(r"time=([\d.]+)", text)))
            off.append(abs(ours[-1] - pings[-1]))
    finally:
        sender.close(), receiver.close(), lab.close()
    return [
        line("TCP through a token bucket of 200 Mbit/s, Gbit/s; how far from its counter", giga(rates), f"the counter less headers {giga(counted)}", apart, "≤ 0.01", lambda m: m <= 0.01),
        line("UDP at 230 Mbit/s through it: datagrams lost, %; points from its drops", spread(losses), f"dropped {spread(dropped)}", points, "≤ 0.2 points", lambda m: m <= 0.2),
        line("round trip through it, median, ms; how far from ping's", spread(ours), f"ping {spread(pings)}", off, "≤ 0.1 ms", lambda m: m <= 0.1),
    ]


# ---------------------------------------------------------------- report


KNOWN = [(1, 0.2), (4, 0.38), (1000, 1), (100, 5)]


@row("capacity")
def capacity(binary):
    """The capacity search against servers that are known to hold slots ÷ seconds requests a second."""
    server_file = os.path.join(os.path.dirname(os.path.abspath(__file__)), "known_server.py")
    lines = []
    for slots, seconds in KNOWN:
        truth = slots / seconds
        server = subprocess.Popen(
            pinned(SERVER_CORE, sys.executable, server_file, str(slots), str(seconds)), stdout=subprocess.PIPE, text=True
        )
        port = int(server.stdout.readline())
        tidemark = Tidemark(binary)
        begun = time.monotonic()
        base = {"kind": "rate", "url": f"http://127.0.0.1:{port}/"}
        search = tidemark.ask("/api/experiments", {"capacity": {"base": base}})
        while search["state"] in ("queued", "running"):
            time.sleep(1)
            search = tidemark.ask(f"/api/experiments/{search['id']}")
        took = time.monotonic() - begun
        tidemark.close()
        finish(server)
        found = search["capacity"] or {}
        lower, upper, ceiling = (found.get(name) for name in ("lower_per_s", "upper_per_s", "ceiling_per_s"))
        digits = lambda value: "–" if value is None else f"{value:.4g}"
        # 1 where the truth lies between the bounds, else the nearer bound's share of it.
        inside_of = [bound / truth for bound in (lower, upper) if bound is not None]
        if lower is not None and upper is not None and lower <= truth <= upper:
            inside_of = [1.0]
        nearest = min(inside_of, key=lambda share: abs(share - 1), default=0.0)
        what = f"capacity of {slots} × {seconds:g} s = {truth:.4g}/s"
        told = f"{digits(lower)} to {digits(upper)} /s in {took:.0f} s, {found.get('trials')} trials, limited by {found.get('limited_by')}"
        lines.append(line(f"{what}: bracket", told, "–", [nearest], "1, or within 5 %", lambda m: abs(m - 1) <= 0.05))
        lines.append(line(f"{what}: ceiling", f"{digits(ceiling)} /s", "–", [(ceiling or 0) / truth], "within 3 %", lambda m: abs(m - 1) <= 0.03))
    return lines


def version(command):
    if not shutil.which(command[0]):
        return f"{command[0]} is not installed"
    output = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    return next((text.strip() for text in output.splitlines() if re.search(r"\d+\.\d+", text)), "?")


def machine():
    model = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read()).group(1)
    memory = int(re.search(r"MemTotal:\s+(\d+)", open("/proc/meminfo").read()).group(1)) / 2**20
    congestion = open("/proc/sys/net/ipv4/tcp_congestion_control").read().strip()
    return f"{len(os.sched_getaffinity(0))} CPUs ({model}), {memory:.0f} GiB, Linux {os.uname().release}, congestion control {congestion}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("rows", nargs="*", choices=[*ROWS, []], default=[])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="how often each comparison is made")
    options = parser.parse_args()
    globals()["PAIRS"] = options.pairs
    if options.list:
        for name, function in ROWS.items():
            print(f"{name:12} {function.__doc__}")
        return
    binary = os.path.abspath(options.binary)
    text = [
        "# Benchmarks",
        "",
        "Made by `scripts/bench.sh`: each tool in turn in one run, at least five pairs, median [smallest..largest]; the ratio is taken pair by pair. "
        "Server pinned to core 0, generator to core 1, all on loopback. Absolute figures are of one shared machine; the ratios are what counts.",
        "",
        f"Machine: {machine()}. Date: {datetime.date.today()}.",
        "",
        f"Versions: {version([binary, '--version'])}; {version(['oha', '--version'])}; {version(['wrk', '-v'])}; {version(['httperf', '--version'])}; {version(['nginx', '-v'])}; {version(['iperf', '-v'])}; {version(['iperf3', '--version'])}.",
        "",
        "| what | tidemark | the other | ratio or figure | goal | |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name in options.rows or ROWS:
        print(f"{name}: {ROWS[name].__doc__}", file=sys.stderr, flush=True)
        for entry in ROWS[name](binary):
            text.append("| {what} | {ours} | {theirs} | {ratio} | {goal} | {reached} |".format(**entry))
            print(text[-1], flush=True)
    if not options.rows:
        notes = "docs/benchmarks-notes.md"
        if os.path.exists(notes):
            text += ["", open(notes).read().strip()]
        with open("docs/benchmarks.md", "w") as file:
            file.write("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
