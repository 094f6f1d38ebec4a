#!/usr/bin/python3
"""Debian's prometheus scrapes capstan's metrics, and prometheus' query API must return the same numbers.

usage: prometheus_scrape_test.py --planted PROGRAM        scrape a program that prints its address and serves PLANTED
       prometheus_scrape_test.py HOST:PORT [HOST:PORT...] scrape servers that are running already
       prometheus_scrape_test.py --discover HOST:PORT     scrape those that http://HOST:PORT/http_sd names
       ... --expect 'QUERY=VALUE'                         more queries that must reach this number (repeatable)
       ... --token-file FILE                              the servers ask for the token in this file
       ... --certificate FILE                             the servers speak https, with a certificate signed by this one

Exit code 0 passed, 1 failed, 77 prometheus or promtool is missing (with CI=true in the environment: 1).
"""

import argparse
import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'e2e'))
import harness
import prometheus_server

WAIT_SECONDS = harness.patient(80)  # for one scrape of every target, and for one value
ALL_SECONDS = harness.patient(240)  # for the whole test

PLANTED = {
    'capstan_server_pushes_total{outcome="staged"}': 7,
    'sum(capstan_server_requests_total)': 10,
    'capstan_server_apply_duration_seconds_count': 4,
    'capstan_server_apply_duration_seconds_bucket{le="0.0025"}': 3,
    'capstan_server_update_staleness_steps_bucket{le="6"}': 2,
    'capstan_job_loss': 3.25,
    'capstan_cluster_members{member="worker",state="alive"}': 2,
    'capstan_worker_samples_total': 1280,
    'capstan_network_receive_bytes_total{plane="data"}': 1048576,
    'capstan_build_info{version="1.2.3",commit="abc1234"}': 1,
}


class Failed(Exception):
    pass


def out_of_time(*_):
    raise Failed(f'not done after {ALL_SECONDS} s')


def check(condition, message):
    if not condition:
        raise Failed(message)


def get(url, token=None, certificate=None):
    request = urllib.request.Request(url, headers={'Authorization': f'Bearer {token}'} if token else {})
    context = ssl.create_default_context(cafile=certificate) if certificate else None
    with urllib.request.urlopen(request, timeout=WAIT_SECONDS, context=context) as answer:
        return answer.headers.get_content_type(), answer.read().decode()


class Access:
    """How the servers are read: what prometheus is told, and what this program does itself."""

    def __init__(self, token_file, certificate):
        self.token_file, self.certificate = token_file, certificate
        self.scheme = 'https' if certificate else 'http'

    def get(self, address, path):
        token = None
        if self.token_file:
            with open(self.token_file) as file:
                token = file.read().strip()
        return get(f'{self.scheme}://{address}{path}', token, self.certificate)

    def configuration(self):
        settings = {}
        if self.token_file:
            # Prometheus 2.42 leaves out the type in a discovery, unless it is written.
            settings['authorization'] = {'type': 'Bearer', 'credentials_file': os.path.abspath(self.token_file)}
        if self.certificate:
            settings['tls_config'] = {'ca_file': os.path.abspath(self.certificate)}
        return settings


@contextlib.contextmanager
def running(command, **options):
    """Runs a child process until the block ends, normally or by an exception, or until this process is killed."""
    child = subprocess.Popen(['setpriv', '--pdeathsig', 'KILL', '--', *command], **options)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(harness.patient(10))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def planted_addresses(stack, program):
    child = stack.enter_context(running([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    address = child.stdout.readline().strip()
    check(address, f'{program} ended without printing its address')
    return [address]


def check_text(address, access):
    content_type, text = access.get(address, '/metrics')
    check(content_type == 'text/plain', f'{address} serves {content_type}')
    tool = subprocess.run(['promtool', 'check', 'metrics'], input=text, text=True, capture_output=True, timeout=WAIT_SECONDS)
    check(tool.returncode == 0 and not tool.stdout.strip() and not tool.stderr.strip(),
          f'promtool check metrics on {address}:\n{tool.stdout}{tool.stderr}')
    print(f'{address}: {sum(not line.startswith("#") for line in text.splitlines())} series, promtool has no remark')


def discovered_addresses(address, access):
    content_type, text = access.get(address, '/http_sd')
    check(content_type == 'application/json', f'{address} serves {content_type}')
    return [target for group in json.loads(text) for target in group['targets']]


def wait_until(what, prometheus, condition):
    """Polls until `condition` holds. prometheus gives no event to wait for."""
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        done, last = condition()
        if done:
            return
        if prometheus.closed:
            raise Failed(f'prometheus ended while waiting for {what}:\n{prometheus.output}')
        time.sleep(0.1)
    raise Failed(f'{what}: not within {WAIT_SECONDS} s; last seen: {last}')


def check_prometheus(stack, folder, addresses, found, expected):
    prometheus = stack.enter_context(prometheus_server.Prometheus(folder, found))
    subprocess.run(['promtool', 'check', 'config', f'{folder}/prometheus.yml'], check=True, capture_output=True,
                   timeout=WAIT_SECONDS)

    def query(expression):
        return [value for _, value in prometheus.query(expression)]

    def scraped():
        values = query('up')
        return values == [1.0] * len(addresses), f'up = {values}'

    wait_until(f'a scrape of {", ".join(addresses)}', prometheus, scraped)
    for expression, value in expected.items():

        def as_expected(expression=expression, value=value):
            values = query(expression)
            return values == [value], f'{values}'

        wait_until(f'{expression} = {value:g}', prometheus, as_expected)  # a job counts on while it is scraped
    for expression in ('capstan_build_info', 'process_resident_memory_bytes > 1e6', 'process_start_time_seconds > 1e9'):

        def of_all(expression=expression):
            values = query(expression)
            return len(values) == len(addresses), f'{len(values)} of {len(addresses)} targets'

        wait_until(expression, prometheus, of_all)  # a target may answer too late once
    print(f'prometheus scraped {len(addresses)} target(s) and answered {len(expected) + 3} queries as expected')


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--planted', metavar='PROGRAM')
    parser.add_argument('--discover', metavar='HOST:PORT')
    parser.add_argument('--expect', metavar='QUERY=VALUE', action='append', default=[])
    parser.add_argument('--token-file', metavar='FILE')
    parser.add_argument('--certificate', metavar='FILE')
    parser.add_argument('addresses', nargs='*')
    arguments = parser.parse_args()
    if [bool(arguments.planted), bool(arguments.addresses), bool(arguments.discover)].count(True) != 1:
        parser.error('give either --planted PROGRAM, --discover HOST:PORT or addresses')
    return arguments


def main():
    arguments = parse_arguments()
    prometheus_server.exit_without_prometheus()
    expected = dict(PLANTED) if arguments.planted else {}
    for text in arguments.expect:
        expression, _, value = text.rpartition('=')
        expected[expression] = float(value)
    signal.signal(signal.SIGALRM, out_of_time)
    signal.alarm(ALL_SECONDS)
    try:
        with tempfile.TemporaryDirectory(prefix='capstan-prometheus-') as folder, contextlib.ExitStack() as stack:
            addresses = planted_addresses(stack, arguments.planted) if arguments.planted else arguments.addresses
            access = Access(arguments.token_file, arguments.certificate)
            found = {'static_configs': [{'targets': addresses}], 'scheme': access.scheme}
            if arguments.discover:
                addresses = discovered_addresses(arguments.discover, access)
                url = f'{access.scheme}://{arguments.discover}/http_sd'  # which also says how each is scraped
                found = {'http_sd_configs': [{'url': url, 'refresh_interval': '1s', **access.configuration()}]}
            found.update(access.configuration())
            for address in addresses:
                check_text(address, access)
            check_prometheus(stack, folder, addresses, found, expected)
    except (Failed, AssertionError, OSError, subprocess.SubprocessError) as error:
        print(f'FAILED: {error}', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
