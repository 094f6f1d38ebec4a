#!/usr/bin/python3
"""The status page of a running job, as Chromium shows it: progress, curves, members, what bounds the job, and events."""
import json
import signal
import urllib.request

import browser
import harness
import skips

CURVE = "document.querySelector('#chart-loss path.line')?.getAttribute('d')?.split('L').length"
MARKS = "document.querySelectorAll('#strip path.bad').length"


def shows(element, text):
    return f"document.getElementById({json.dumps(element)})?.innerText.includes({json.dumps(text)})"


class StatusPageTest(harness.JobTest):
    def setUp(self):
        super().setUp()
        self.browser = self.enterContext(browser.Browser(harness.PATIENCE))
        self.browser.resize(1180, 1400)

    def open_page(self, launch):
        launch.wait_for_line("running: ")
        self.url = f"http://{self.endpoints()['metrics']['coordinator']}"
        self.browser.open(self.url + "/")

    def endless(self, *settings):
        # Snapshots make the recovery short, and the model has several blocks, so that both servers have some.
        return self.launch(self.job_file(steps=harness.ENDLESS), "--set", "model.hidden=[1024, 512]",
                           "snapshot.every_steps=20", *settings)

    def read(self, path):
        with urllib.request.urlopen(self.url + path, timeout=harness.DEADLINE) as answer:
            return json.load(answer)

    def stop(self, launch):
        harness.kill(launch.pid, signal.SIGINT)
        self.assertEqual(launch.wait(), 130, launch.output)

    def test_a_running_job_shows_how_it_is_and_who_was_lost(self):
        with self.endless(harness.LATE_REPORTS) as launch:
            self.open_page(launch)
            page = self.browser
            page.wait_for(f"{CURVE} > 8", "a curve of the loss")
            self.assertRegex(page.text("step"), r"^[\d,]+$")
            self.assertIn("of 1,000,000,000 steps", page.text("steps"))
            page.wait_for(shows("left", "left"), "the time that is left")  # a later status than the first has it
            self.assertEqual(page.text("job"), "small")
            self.assertEqual(page.text("state"), "running")
            for name in ("worker-0", "worker-1"):
                page.wait_for(shows("workers", name), name)
            for name in ("server 0", "server 1"):
                page.wait_for(shows("shards", name), name)
            page.wait_for("/ % of |slowest|far longer/.test(document.getElementById('bound-sentence').innerText)",
                          "what bounds the job")
            page.wait_for(shows("snapshots", "version "), "a snapshot")
            page.wait_for(shows("events", "the job starts from step 0"), "the start")
            self.assertEqual(page.evaluate(MARKS), 0, "nobody was lost yet")
            harness.kill(self.pids()["worker-1"])
            page.wait_for(shows("events", '"worker-1" was lost'), "the lost worker")
            page.wait_for(f"{MARKS} >= 1", "its mark below the curve")
            page.wait_for(shows("workers", "worker-1"), "the worker that was started again")
            self.assertFalse(page.evaluate("document.documentElement.scrollWidth > innerWidth"), "it is too wide")
            page.resize(360, 800, phone=True)
            page.wait_for(f"innerWidth === 360 && {CURVE} > 8", "the curve on a phone")
            self.assertFalse(page.evaluate("document.documentElement.scrollWidth > innerWidth"), "too wide for a phone")
            self.stop(launch)
            page.wait_for(shows("trouble", "The coordinator has not answered for "), "the end of the coordinator")
            refused = [text for text in page.errors if "ERR_CONNECTION_REFUSED" not in text]
            self.assertEqual(refused, [], "the page's script, or its policy, complains")

    def test_a_server_that_stands_still_is_named(self):
        with self.endless() as launch:
            self.open_page(launch)
            self.browser.wait_for(f"{CURVE} > 2", "a curve of the loss")
            server = self.pids()["server-1"]
            harness.kill(server, signal.SIGSTOP)
            self.browser.wait_for(shows("shards", "silent"), "a silent server")
            self.browser.wait_for(shows("state", "waiting"), "that the job waits")
            self.browser.wait_for(shows("bound-sentence", "The job waits for server 1, silent for "), "for whom")
            harness.kill(server, signal.SIGCONT)
            self.browser.wait_for(shows("state", "running"), "that the job goes on")
            self.stop(launch)

    def test_losses_at_the_ends_of_the_numbers_have_an_axis_with_few_marks(self):
        with self.endless() as launch:
            self.open_page(launch)
            self.browser.wait_for("typeof Chart === 'function'", "the page's script")
            for pair in ("2, 1e298", "1e-310, 1", "5e-324, 1.7e308", "1e305, 1e307", "1e-322, 1e-320",
                         "1e300, 1e300", "9007199254740992, 9007199254740994"):
                range_of = ("Chart.prototype.range.call({series: [{key: 'loss'}], height: 200, zero: false}, "
                            f"[{pair}].map((loss) => ({{loss}})))")
                self.assertLessEqual(self.browser.evaluate(f"{range_of}.marked.length"), 100, pair)
                self.assertTrue(self.browser.evaluate(f"[{pair}].every((loss) => isFinite({range_of}(loss)))"), pair)
            points = "[{loss: -1}, {loss: 0}, ...Array.from({length: 2000}, (_, i) => ({loss: 1 + i}))]"
            y = f"Chart.prototype.range.call({{series: [{{key: 'loss'}}], height: 200, zero: false}}, {points})"
            self.assertTrue(self.browser.evaluate(f"isFinite({y}(0)) && isFinite({y}(-1))"), "a far-off loss of 0")
            self.assertEqual(self.browser.evaluate("ticks(-1.7e308, 1.7e308, 5).length"), 0)
            self.assertEqual(self.browser.evaluate("logTicks(1, 1000)"), [1, 10, 100, 1000])
            self.assertIn(self.browser.evaluate("logTicks(0, Infinity).length"), range(5, 11))
            self.stop(launch)

    def test_the_curves_and_events_outlive_the_coordinator(self):
        with self.endless() as launch:
            self.open_page(launch)
            self.browser.wait_for(f"{CURVE} > 8", "a curve of the loss")
            harness.kill(self.pids()["worker-0"])
            self.browser.wait_for(shows("events", '"worker-0" was lost'), "the lost worker")
            harness.kill(self.pids()["coordinator"])
            self.browser.wait_for(shows("events", "the coordinator was started again"), "the new coordinator")
            self.browser.wait_for(shows("events", '"worker-0" was lost'), "what the earlier one saw")
            history = self.read("/api/v1/history")
            self.assertEqual(history["points"][0]["step"], 0)
            times = [point["time"] for point in history["points"]]
            self.assertEqual(times, sorted(times))
            self.stop(launch)

    def test_the_page_says_the_main_facts_without_a_script(self):
        with self.endless() as launch:
            launch.wait_for_line("step ")
            self.browser.run_scripts(False)
            self.open_page(launch)
            source = lambda: json.dumps(self.browser.call("DOM.getDocument", depth=-1))
            text = harness.poll(lambda: "worker-1" in (found := source()) and found, "the page's tables")
            for word in ("capstan: small", "worker-0", "worker-1", "server 0", "server 1", "sentence", " of 1000000000"):
                self.assertIn(word, text)
            self.stop(launch)

    def test_the_status_and_the_history_have_what_programs_read(self):
        with self.endless() as launch:
            self.open_page(launch)
            status = harness.poll(lambda: (found := self.read("/api/v1/status")).get("samples_per_second")
                                  and found["snapshots"] and found, "a step and a snapshot")
            for key in ("step_seconds", "grad_norm", "loss", "learning_rate"):
                self.assertGreater(status[key], 0, key)
            self.assertIn(status["bound_by"]["what"], ("compute", "network", "server", "input", "straggler", "waiting",
                                                       "snapshot", "unknown"))
            self.assertTrue(status["bound_by"]["sentence"].endswith("."))
            self.assertEqual([type(worker["lag"]) for worker in status["workers"]], [int, int])
            self.assertGreaterEqual(status["snapshots"][0]["age_seconds"], 0)
            self.assertGreater(status["snapshots"][0]["bytes"], 0)
            history = self.read("/api/v1/history")
            self.assertLessEqual({"step", "time", "loss", "learning_rate", "grad_norm", "samples_per_second"},
                                 set(history["points"][0]))
            self.assertTrue(any("validation_loss" in point for point in history["points"]))
            self.assertLessEqual({"start", "join", "snapshot"}, {event["kind"] for event in history["events"]})
            self.assertEqual(history["steps_per_point"], 1)
            self.stop(launch)


if __name__ == "__main__":
    skips.main(lack=None if browser.PROGRAM else "Chromium is not there; apt-get install chromium")
