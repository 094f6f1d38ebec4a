"""The job whose processes make collective calls, for tests of such calls. bench/team_bench.py has it, too."""
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))

import team_bench


def text(ranks):
    """The job file. Its only step ends the job."""
    return team_bench.JOB.format(ranks=ranks)
