"""bench/scrape_overhead.py measures a small job and writes its result: scrape_overhead_test.py --bin FOLDER"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import harness

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "scrape_overhead.py")


class ScrapeOverheadTest(unittest.TestCase):
    def test_every_process_is_scraped_and_the_result_is_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            output = os.path.join(folder, "result.json")
            subprocess.run([sys.executable, "-B", SCRIPT, "--bin", harness.BIN, "--pairs", "2", "--window", "2", "-o", output],
                           check=True, stderr=subprocess.DEVNULL, timeout=harness.DEADLINE)
            with open(output, encoding="utf-8") as file:
                result = json.load(file)
        self.assertEqual(result["processes"], 5)
        self.assertEqual(result["pairs"], 2)
        self.assertGreaterEqual(result["scrapes"], 5)
        self.assertGreater(result["scrape_bytes"], 5000)
        for key in ("ratio", "step_ms_with", "step_ms_without", "processor_ms_per_scrape"):
            self.assertGreater(result[key], 0, key)


if __name__ == "__main__":
    harness.main()
