#!/usr/bin/python3
"""Runs a worker's script that waits at the gates of gate.py: it begins a step after a gate once the gate is open.

usage: paced_script.py SCRIPT ARGUMENTS...
"""
import os
import runpy
import sys

import capstan.client
import gate


def paced(work):
    gates = [text.split(":", 1) for text in os.environ[gate.VARIABLE].split()]

    def rounds(client, *arguments, **named):
        for one in work(client, *arguments, **named):
            while gates and one.step >= int(gates[0][0]):
                gate.wait_at(gates.pop(0)[1])
            yield one

    return rounds


if __name__ == "__main__":
    capstan.client.Client.work = paced(capstan.client.Client.work)
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
