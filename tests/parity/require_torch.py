"""Imports PyTorch, or ends the test: exit code 77 if it is missing, and 1 with CI=true in the environment."""

import os
import sys


def require_torch(consequence):
    """Returns the module torch. `consequence`: the text for the message that says what was not done without it."""
    try:
        import torch
        return torch
    except ImportError:
        failed = os.environ.get('CI') == 'true'
        print(f'{"FAILED" if failed else "SKIPPED"}: PyTorch is missing, and {consequence}; '
              'apt-get install python3-torch', file=sys.stderr)
        sys.exit(1 if failed else 77)
