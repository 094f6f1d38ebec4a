"""Secrets for tests of who may read a job's metrics: a token, and a certificate for 127.0.0.1 with its key."""
import os
import secrets
import subprocess

import harness


def write_secret(path, text):
    """Writes a file that only its owner may read; returns its path. A former file is replaced at once."""
    with open(os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
        file.write(text)
    os.rename(path + ".new", path)
    return path


def write_token(path):
    return write_secret(path, secrets.token_hex(32) + "\n")


def make_certificate(prefix):
    """Makes a certificate that is signed with its own key; returns the paths of both."""
    certificate, key = prefix + ".crt", prefix + ".key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=capstan", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
                   check=True, capture_output=True, timeout=harness.DEADLINE)
    os.chmod(key, 0o600)
    return certificate, key
