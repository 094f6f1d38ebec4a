"""The formulas of link_table.py and slow_line.py at known points; accepted and refused arguments. Needs no network and no root."""
import contextlib
import io
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
import link_network
import link_table
import slow_line

GIGABIT = 1e9 / 8  # bytes per second


class SlowLineTest(unittest.TestCase):
    def test_a_row_is_of_what_the_job_needs_and_the_line_gives(self):
        size = link_table.gradient_bytes(8)
        row = slow_line.row_of(link_table.Point("1MiB/s", 8, 1, 1), size / 8, 3, 16.0, 3 * size, 5 * size)
        self.assertEqual((row["up_ratio"], row["down_ratio"], row["step_ratio"], row["line_s"]), (1.0, 1.0, 1.0, 16.0))
        crowd = slow_line.row_of(link_table.Point("1gbit", 1, 60, 1), size, 3, 16.0, 6 * link_table.gradient_bytes(1), 0)
        self.assertEqual(crowd["up_ratio"], 2.0)  # of one worker, whose line it is
        self.assertAlmostEqual(crowd["line_s"], 120 * link_table.gradient_bytes(1) / size, places=2)


class FormulaTest(unittest.TestCase):
    def test_a_ring_sends_twice_what_the_others_have(self):
        self.assertEqual(link_table.ring_seconds(2, 125e6, GIGABIT), 1.0)
        self.assertEqual(link_table.ring_seconds(4, 125e6, GIGABIT), 1.5)
        self.assertEqual(link_table.ring_seconds(4, 125e6, 10 * GIGABIT), 0.15)
        self.assertEqual(link_table.ring_seconds(1, 125e6, GIGABIT), 0.0)

    def test_servers_are_bound_by_their_own_links_or_the_workers(self):
        seconds = lambda workers, servers, *rates, **how: link_table.servers_seconds(workers, servers, 125e6, *rates, **how)
        self.assertEqual(seconds(4, 1, GIGABIT, GIGABIT), 4.0)
        self.assertEqual(seconds(4, 2, GIGABIT, GIGABIT), 2.0)
        self.assertEqual(seconds(4, 4, GIGABIT, GIGABIT), 1.0)
        self.assertEqual(seconds(4, 8, GIGABIT, GIGABIT), 1.0)
        self.assertEqual(seconds(4, 1, GIGABIT, 10 * GIGABIT), 1.0)
        self.assertEqual(seconds(4, 2, GIGABIT, GIGABIT, overlapped=False), 4.0)

    def test_where_they_cross(self):
        self.assertEqual(link_table.servers_to_match(2), 2.0)
        self.assertAlmostEqual(link_table.servers_to_match(4), 8 / 3)
        self.assertAlmostEqual(link_table.servers_to_match(4, worker_bandwidth=1.0, server_bandwidth=4.0), 2 / 3)
        for workers in range(3, 65):
            match = link_table.servers_to_match(workers)
            ring = link_table.ring_seconds(workers, 125e6, GIGABIT)
            at = lambda servers: link_table.servers_seconds(workers, servers, 125e6, GIGABIT, GIGABIT)
            self.assertAlmostEqual(at(match), ring)
            self.assertLess(at(int(match) + 1), ring)
            self.assertGreater(2 * at(workers), ring, "as separate phases servers never win")

    def test_who_is_faster(self):
        self.assertEqual(link_table.faster(1.0, 2.0), "sync")
        self.assertEqual(link_table.faster(2.0, 1.0), "allreduce")
        self.assertEqual(link_table.faster(1.0, 1.015), "equal")
        self.assertEqual(link_table.faster(1.0, 1.03), "sync")

    def test_numbers_that_mean_nothing_are_refused(self):
        for wrong in 0, -1, float("nan"), float("inf"):
            with self.assertRaisesRegex(ValueError, "bandwidth is to be a positive number, not " + str(wrong)):
                link_table.ring_seconds(2, 1, wrong)
            with self.assertRaisesRegex(ValueError, "servers"):
                link_table.servers_seconds(2, wrong, 1, 1, 1)
        with self.assertRaisesRegex(ValueError, "workers"):
            link_table.ring_seconds(0, 1, 1)
        with self.assertRaisesRegex(ValueError, "workers"):
            link_table.servers_to_match(1)

    def test_predictions_of_a_point(self):
        found = link_table.predictions(link_table.Point("1gbit", 64, 4, 2), 1e9)
        size = link_table.gradient_bytes(64)
        self.assertAlmostEqual(found["sync"], 2 * size / GIGABIT)
        self.assertAlmostEqual(found["sync_in_phases"], 4 * size / GIGABIT)
        self.assertAlmostEqual(found["allreduce"], 1.5 * size / GIGABIT)


class PointsTest(unittest.TestCase):
    def refused(self, *words):
        said = io.StringIO()
        with self.assertRaises(SystemExit) as ended, contextlib.redirect_stderr(said):
            link_table.parse(["--bin", "bin", *words])
        self.assertEqual(ended.exception.code, 2)
        return said.getvalue()

    def test_models_are_about_as_large_as_they_are_called(self):
        for mib in link_table.MODELS:
            self.assertLess(abs(link_table.gradient_bytes(mib) / (mib << 20) - 1), 0.01, mib)

    def test_rates_are_read(self):
        self.assertEqual(link_table.parse_link("0.1gbit"), 1e8)
        self.assertEqual(link_table.parse_link("100mbit"), 1e8)
        self.assertEqual(link_table.parse_link("10gbit"), 1e10)
        self.assertIsNone(link_table.parse_link("unlimited"))
        for wrong in "", "1", "gbit", "x1gbit", "-1gbit", "0gbit", "nangbit", "1e9gbit":
            with self.assertRaisesRegex(ValueError, "write unlimited, or a rate"):
                link_table.parse_link(wrong)

    def test_points_are_chosen_by_name(self):
        _, everything = link_table.parse(["--bin", "bin"])
        self.assertEqual(len(everything), 4 * len(link_table.MODELS) * len(link_table.JOBS))
        _, some = link_table.parse(["--bin", "bin", "--only", "/64mib/4w", "--links", "100mbit"])
        self.assertEqual([link_table.name_of(point) for point in some], [f"100mbit/64mib/4w{s}s" for s in (1, 2, 4)])
        _, quick = link_table.parse(["--bin", "bin", "--quick"])
        self.assertEqual(quick, [link_table.Point("1gbit", 8, 2, 1)])

    def test_wrong_words_are_refused(self):
        self.assertIn("none of unlimited/1mib/2w1s to", self.refused("--only", "5w"))
        self.assertIn('link "fast"', self.refused("--links", "1gbit,fast"))
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
            link_table.parse([])

    def test_steps_follow_from_the_time_that_they_take(self):
        self.assertEqual(link_table.step_counts(0.01), (2, 15))
        self.assertEqual(link_table.step_counts(1.0), (2, 2))
        self.assertEqual(link_table.step_counts(30.0), (1, 1))


class RecordsTest(unittest.TestCase):
    @staticmethod
    def lines(*seconds, generations=None):
        generations = generations or [1] * len(seconds)
        return [json.dumps({"seconds": s, "generation": g}) for s, g in zip(seconds, generations)]

    def test_neither_the_first_steps_nor_those_behind_count(self):
        self.assertEqual(link_table.median_step(self.lines(9, 9, 1, 3, 2, 9), warm=2, steps=3), 2)

    def test_a_run_that_lost_a_process_does_not_count(self):
        with self.assertRaisesRegex(RuntimeError, "replayed"):
            link_table.median_step(self.lines(1, 1, 1, 1, generations=[1, 1, 2, 2]), warm=1, steps=2)
        with self.assertRaisesRegex(RuntimeError, "too few"):
            link_table.median_step(self.lines(1, 1), warm=1, steps=2)

    def test_a_row_says_ratios_to_the_formula_of_the_measured_rate(self):
        point = link_table.Point("1gbit", 8, 2, 1)
        ring = link_table.gradient_bytes(8) / (0.9 * GIGABIT)
        row = link_table.row_of(point, 0.9e9, {"sync": (3 * ring, 5), "allreduce": (2 * ring, 7)},
                                {"sync": (0.1, 9), "allreduce": (0.2, 9)})
        self.assertAlmostEqual(row["sync"]["ratio"], 1.5)
        self.assertAlmostEqual(row["allreduce"]["ratio"], 2.0)
        self.assertEqual((row["faster_by_formula"], row["faster_measured"]), ("allreduce", "allreduce"))
        self.assertEqual((row["sync"]["steps"], row["allreduce"]["unlimited_ms"]), (5, 200))
        self.assertIn("1.50", link_table.columns(row))


class LimitTest(unittest.TestCase):
    def test_a_limit_lets_a_millisecond_pass_in_one_go(self):
        self.assertEqual(link_network.tbf_of(1e9, 20), "tbf rate 1000000000bit burst 125000b latency 20ms".split())
        self.assertIn("16384b", link_network.tbf_of(1e8, 20), "no less than some frames")


if __name__ == "__main__":
    unittest.main()
