#!/usr/bin/python3
"""What scrapes cost a job: the time of its steps while each process is scraped ten times a second, over that of steps in
between. Windows with and without scrapes alternate within one job, so that both see the same machine.

usage: scrape_overhead.py --bin build/release/bin [-o FILE] [--pairs 20] [--window 5] [--rate 10]

It prints the median of the ratios of neighbouring windows with their quartiles, and the processor time that a scrape costs
the scraped process: its threads that serve pages do nothing else, so that other load does not blur this figure. -o writes the
same as JSON, with the command and the machine. The scraper runs on the same machine, and the ratio has its time in it.
"""
import argparse
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

JOB = """\
[job]
name = "scraped"
steps = 1000000000
global_batch = 64
slots = 2

[model]
kind = "mlp"
hidden = [512, 512]

[data]
kind = "synthetic"
samples = 4096
features = 784
classes = 10

[optimizer]
kind = "adamw"
lr = 1e-4

[cluster]
servers = 2
workers = 2
"""
START_SECONDS = 120


class Scraper(threading.Thread):
    """Scrapes one process at a steady rate while `scraping` is set."""

    def __init__(self, address, rate, scraping, ended):
        super().__init__()
        self.address, self.every, self.scraping, self.ended = address, 1 / rate, scraping, ended
        self.seconds, self.bytes = [], 0

    def run(self):
        while not self.ended.is_set():
            if not self.scraping.wait(0.1):
                continue
            began = time.monotonic()
            connection = http.client.HTTPConnection(self.address, timeout=10)
            connection.request("GET", "/metrics")
            self.bytes = len(connection.getresponse().read())
            connection.close()
            self.seconds.append(time.monotonic() - began)
            self.ended.wait(max(0.0, began + self.every - time.monotonic()))


def seconds_of_pages(run):
    """Returns the processor time so far of all threads that serve the pages of the run's processes."""
    total = 0
    for name in [name for name in os.listdir(os.path.join(run, "pids")) if "." not in name]:
        with open(os.path.join(run, "pids", name), encoding="ascii") as file:
            tasks = f"/proc/{int(file.read())}/task"
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/comm", encoding="ascii", errors="replace") as file:
                if not file.read().startswith("http"):
                    continue
            with open(f"{tasks}/{task}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[0])
    return total / 1e9


def seconds_of_steps(path, offset):
    """Returns the durations of the steps that were recorded after `offset`, and the new offset."""
    with open(path, "rb") as file:
        file.seek(offset)
        lines = file.read().split(b"\n")
    lines.pop()  # a line that is being written
    size = sum(len(line) + 1 for line in lines)
    return [json.loads(line)["seconds"] for line in lines], offset + size


def wait_for(condition, what):
    end = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not happen within {START_SECONDS} s")
        threading.Event().wait(0.1)


def measure(run, options):
    """Returns the mean time of a step by window, without and with scrapes, the scrapers, and the processor time of pages."""
    with open(os.path.join(run, "endpoints.json"), encoding="utf-8") as file:
        addresses = json.load(file)["metrics"]
    scraping, ended = threading.Event(), threading.Event()
    scrapers = [Scraper(address, options.rate, scraping, ended) for address in addresses.values()]
    for scraper in scrapers:
        scraper.start()
    records, windows, pages = os.path.join(run, "metrics.jsonl"), ([], []), seconds_of_pages(run)
    try:
        _, offset = seconds_of_steps(records, 0)
        for window in range(2 * options.pairs):
            on = (window + window // 2) % 2  # off, on, on, off: a drift of the machine hits both
            (scraping.set if on else scraping.clear)()
            threading.Event().wait(options.window)
            seconds, offset = seconds_of_steps(records, offset)
            if not seconds:
                raise SystemExit(f"no step within {options.window} s; choose a longer --window")
            windows[on].append(statistics.mean(seconds))
            print(f"{'with' if on else 'without'}: {len(seconds)} steps of {statistics.mean(seconds) * 1e3:.2f} ms", file=sys.stderr)
    finally:
        ended.set()
        for scraper in scrapers:
            scraper.join()
    return windows, scrapers, seconds_of_pages(run) - pages


def result_of(windows, scrapers, pages, options):
    ratios = [on / off for off, on in zip(*windows)]
    quartiles = statistics.quantiles(ratios, n=4)
    taken = [seconds for scraper in scrapers for seconds in scraper.seconds]
    return {"command": " ".join(sys.argv), "machine": {"cores": os.cpu_count(), "load": os.getloadavg()[0]},
            "processes": len(scrapers), "scrapes_per_second": options.rate, "pairs": len(ratios), "window_seconds": options.window,
            "step_ms_without": round(1e3 * statistics.median(windows[0]), 3), "step_ms_with": round(1e3 * statistics.median(windows[1]), 3),
            "ratio": round(quartiles[1], 4), "quartiles": [round(quartiles[0], 4), round(quartiles[2], 4)],
            "processor_ms_per_scrape": round(1e3 * pages / len(taken), 3), "scrapes": len(taken),
            "scrape_bytes": max(one.bytes for one in scrapers)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("-o", "--output")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--window", type=float, default=5)
    parser.add_argument("--rate", type=float, default=10, help="scrapes of each process per second")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="capstan-scraped-") as folder:
        job, run = os.path.join(folder, "job.toml"), os.path.join(folder, "run")
        with open(job, "w", encoding="utf-8") as file:
            file.write(JOB)
        launch = subprocess.Popen([os.path.join(options.bin, "capstan"), "launch", job, "--run-dir", run], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        try:
            records = os.path.join(run, "metrics.jsonl")
            wait_for(lambda: os.path.exists(records) and os.path.getsize(records) > 10000, "a hundred steps")
            windows, scrapers, pages = measure(run, options)
        finally:
            launch.send_signal(signal.SIGINT)
            launch.wait()
    result = result_of(windows, scrapers, pages, options)
    print(f"{result['ratio']:.4f} (quartiles {result['quartiles'][0]:.4f} to {result['quartiles'][1]:.4f}, {result['pairs']} pairs): "
          f"{result['step_ms_with']} ms a step with scrapes over {result['step_ms_without']} ms without; "
          f"{result['scrapes']} scrapes, {result['processor_ms_per_scrape']} ms of a processor each")
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
