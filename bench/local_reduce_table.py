#!/usr/bin/python3
"""Seconds per step of mode sync with all workers on one machine behind one link: each pushes by itself, or one pushes
for all (local_reduce = "gloo").

usage: local_reduce_table.py --bin build/release/bin [--links LIST] [--sizes LIST]

The workers share one network namespace; the coordinator and one server have one each. Each namespace sends and
receives at most the link's rate (tbf). The script needs root, and the programs ip and tc; without them it exits with
77. All processes share this machine's cores.
"""
import argparse
import os
import statistics
import sys
import tempfile

import link_network
import link_table

WORKERS = (2, 4)
WAYS = {"direct": "none", "local": "gloo"}


class OneMachine(link_table.Jobs):
    """Jobs whose workers are all in namespace w0. A mode is a key of WAYS."""

    def _job_file(self, point, mode, steps, coordinator):
        job = super()._job_file(point, "sync", steps, coordinator)
        return job + f'[allreduce]\nlocal_reduce = "{WAYS[mode]}"\n'

    def _place_of_worker(self, index):
        return "w0"


def measure(jobs, network, link, sizes):
    bits = link_table.parse_link(link)
    network.limit(bits)
    rate = statistics.median(network.measured("w0", "s0") for _ in range(3))
    for mib in sizes:
        for workers in WORKERS:
            point = link_table.Point(link, mib, workers, 1)
            in_phases = 8 * link_table.gradient_bytes(mib) * 2 * workers / rate
            seconds = {way: jobs.measure(point, way, 0.02 * workers + in_phases / 4)[0] for way in WAYS}
            print(f"{link:>9}  {rate / 1e9:7.3g}  {mib:4}  {workers:7}  {seconds['direct'] * 1e3:9.0f}  "
                  f"{seconds['local'] * 1e3:8.0f}  {seconds['local'] / seconds['direct']:5.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of the binaries")
    parser.add_argument("--links", default="1gbit", help="rates, as 1gbit,unlimited (default: %(default)s)")
    parser.add_argument("--sizes", default="8,64", help=f"MiB of gradient, of {sorted(link_table.MODELS)} (default: %(default)s)")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.sizes.split(",")]
    if not set(sizes) <= set(link_table.MODELS):
        parser.error(f"--sizes {arguments.sizes}: there are jobs of {sorted(link_table.MODELS)} MiB")
    reason = link_network.missing()
    if reason:
        print(f"local_reduce_table.py: {reason}", file=sys.stderr)
        return link_table.NO_SUPPORT
    members = ["c", "s0", "w0"]
    with tempfile.TemporaryDirectory(prefix="capstan-link-") as folder, link_network.Network(members) as network:
        jobs = OneMachine(network, os.path.abspath(arguments.bin), folder)
        print("     link     Gb/s   MiB  workers  direct ms  local ms  ratio", flush=True)
        for link in arguments.links.split(","):
            measure(jobs, network, link, sizes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
