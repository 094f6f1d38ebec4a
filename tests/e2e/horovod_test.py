#!/usr/bin/python3
"""Scripts for Horovod on capstan: the import is the only line that changes, and the losses are those of plain PyTorch."""
import os
import sys

import harness
import skips
import team_job

HERE = os.path.dirname(os.path.abspath(__file__))
DIGITS = os.path.join(HERE, "horovod_digits.py")
ELASTIC = os.path.join(HERE, "horovod_elastic.py")
LINE, OURS = "import horovod.torch as hvd\n", "import capstan.horovod as hvd\n"
JOB = f"""\
{team_job.text(4)}
[limits]
lease = {harness.patient(2)}
join = {harness.DEADLINE}
"""
# What a script's lines raise, in a job of one process and in a process without a job.
REFUSED = {
    "hvd.join()": "Invalid: hvd.join() is not offered, for processes with different numbers of batches: give all the same",
    "hvd.ProcessSet": "Invalid: hvd.ProcessSet is not offered: collective calls are of all processes",
    "hvd.allreduce(torch.ones(2), op=hvd.Adasum)": "Invalid: op=hvd.Adasum is not offered: take op=hvd.Average",
    "hvd.allreduce(torch.ones(2, requires_grad=True))": "Invalid: hvd.allreduce of a tensor that requires a gradient",
    "hvd.allgather(torch.tensor(1.0))": "Invalid: hvd.allgather of a tensor without dimensions",
    "hvd.broadcast(torch.ones(1), 9)": "Invalid: hvd.broadcast from rank 9: there are ranks 0 to 0",
    "hvd.sparse_allreduce_async": "Invalid: hvd.sparse_allreduce_async is not offered: give allreduce(tensor.to_dense())",
    "hvd.DistributedOptimizer(torch.optim.LBFGS([p]))": "Invalid: LBFGS computes several gradients in one step",
    "hvd.DistributedOptimizer(torch.optim.SGD([p], lr=1), [('a', q)])": "ValueError: named_parameters was specified, but one",
    "s = torch.optim.SGD([q], lr=1); torch.optim.lr_scheduler.StepLR(s, 1); hvd.DistributedOptimizer(s)":
        "Invalid: the optimizer has a scheduler already, which calls its step() past hvd.DistributedOptimizer: make the "
        "scheduler after it",
    "[loss().backward(), o.zero_grad()]": "AssertionError: optimizer.zero_grad() was called after loss.backward()",
    "[loss().backward(), loss().backward()]": "AssertionError: Gradients were computed more than backward_passes_per_step",
}
WRONG = """\
import torch
import capstan.horovod as hvd
hvd.init()
p, q = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3))
o = hvd.DistributedOptimizer(torch.optim.SGD([p], lr=0.1), [("p", p)])
loss = lambda: (p * p).sum()
for line in {lines!r}:
    try:
        exec(line)
    except Exception as error:
        print(f"{{line}} => {{type(error).__name__}}: {{error}}")
    else:
        print(f"{{line}} => nothing")
    o._gradients._seen.clear()
"""
# Draws samples as several processes would, one after the other.
SAMPLER = """\
import capstan.horovod as hvd
from capstan.horovod.process import process

def drawn(processes, state=None):
    samplers = []
    for rank in range(processes):
        process.place = type(process.place)(rank, processes, 0, 1, 0, 1)
        sampler = hvd.elastic.ElasticSampler(range(10), shuffle=False)
        if state is not None:
            sampler.load_state_dict(state)
        samplers.append(sampler)
    print(processes, "processes:", [list(sampler) for sampler in samplers])
    return samplers

hvd.init()
alone = process.place
first, second = drawn(2)
first.record_batch(0, 2)
second.record_batch(0, 2)
state = first.state_dict()
state["processed_indices"] = sorted({*first.processed_indices, *second.processed_indices})
drawn(3, state)
sampler = drawn(4, state)[0]
process.place = alone
sampler.set_epoch(1)
print("next epoch:", len(sampler), "samples")
"""


class HorovodTest(harness.JobTest):
    def run_job(self, workers, *command, run, settings=()):
        words = [f"cluster.workers={workers}", *settings]
        with self.launch(self.write("job.toml", JOB), *(word for one in words for word in ("--set", one)), "--",
                         sys.executable, "-B", *command, run=run) as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
        lines = []
        folder = self.path(run, "logs")
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                lines += file.read().splitlines()
        return lines

    def converted(self):
        with open(DIGITS, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(text.count(LINE), 1)
        return self.write("digits.py", text.replace(LINE, OURS))

    @staticmethod
    def values(lines, word):
        return [[float(number) for number in line.split(word + " ", 1)[1].split()] for line in lines if f"{word} " in line
                and line.split(word + " ", 1)[1].replace(".", "").replace(" ", "").replace("-", "").isdigit()]

    def plain(self, processes):
        """Losses of plain PyTorch: one process computes the batches of all."""
        sys.path.insert(0, self.folder)
        import torch
        from torch.utils.data.distributed import DistributedSampler
        space = {"__name__": "plain"}
        with open(DIGITS, encoding="utf-8") as file:
            exec(file.read().replace(LINE, ""), space)
        args = space["parser"].parse_args([])
        torch.manual_seed(args.seed)
        data = space["digits"](args.samples)
        model = space["Net"]()
        optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * processes, momentum=args.momentum)
        losses = []
        for epoch in range(1, args.epochs + 1):
            samplers = [DistributedSampler(data, num_replicas=processes, rank=rank) for rank in range(processes)]
            for sampler in samplers:
                sampler.set_epoch(epoch)
            for batches in zip(*(torch.utils.data.DataLoader(data, batch_size=args.batch_size, sampler=sampler)
                                 for sampler in samplers)):
                optimizer.zero_grad()
                each = [torch.nn.functional.nll_loss(model(x), y) for x, y in batches]
                (sum(each) / processes).backward()
                optimizer.step()
                losses.append(sum(loss.item() for loss in each) / processes)
        return losses

    def test_a_script_whose_import_is_changed_has_the_losses_of_plain_pytorch(self):
        script = self.converted()
        for processes in (1, 2):
            with self.subTest(processes=processes):
                lines = self.run_job(processes, script, run=f"run{processes}")
                found = [row[2] for row in self.values(lines, "loss")]
                wanted = self.plain(processes)
                self.assertEqual(len(found), len(wanted))
                for ours, plain in zip(found, wanted):
                    self.assertAlmostEqual(ours, plain, delta=1e-5)
                self.assertLess(found[-1], 0.6 * found[0])
                self.assertEqual(len(self.values(lines, "test")), 3)

    def test_fp16_and_a_predivide_factor_stay_close(self):
        script = self.converted()
        wanted = self.plain(2)
        for name, more, delta in (("fp16", ["--fp16-allreduce"], 2e-2), ("divided", ["--gradient-predivide-factor", "2"], 1e-5)):
            with self.subTest(name):
                found = [row[2] for row in self.values(self.run_job(2, script, *more, run=name), "loss")]
                self.assertEqual(len(found), len(wanted))
                self.assertLess(max(abs(ours - plain) for ours, plain in zip(found, wanted)), delta)

    def test_what_is_not_offered_is_refused_with_the_line_to_write(self):
        script = self.write("wrong.py", WRONG.format(lines=list(REFUSED)))
        for line in self.run_job(1, script, run="wrong"):
            for wrong, said in REFUSED.items():
                if f"{wrong} => " in line:
                    self.assertIn(said, line)
                    REFUSED[wrong] = ""
        self.assertEqual([wrong for wrong, said in REFUSED.items() if said], [])

    def test_elastic_processes_replace_one_that_is_killed_and_end_with_the_same_losses(self):
        undisturbed = self.losses("plain")
        for victim in ("0", "1"):
            with self.subTest(victim=victim):
                lines = self.run_job(2, ELASTIC, self.folder, victim, "7", run=f"killed{victim}")
                self.assertTrue(any("begins at 1 6 as rank" in line for line in lines), lines)
                self.assertTrue(any("resets [2]" in line for line in lines), lines)
                self.assertEqual(self.losses_in(lines), undisturbed)
                os.remove(self.path("died"))

    def test_an_elastic_sampler_shares_out_what_is_left_of_the_epoch(self):
        script = self.write("sampler.py", SAMPLER)
        lines = self.run_job(1, script, run="sampler")
        for said in ("2 processes: [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]", "3 processes: [[4, 7], [5, 8], [6, 9]]",
                     "4 processes: [[4, 8], [5, 9], [6, 4], [7, 5]]", "next epoch: 10 samples"):
            self.assertTrue(any(said in line for line in lines), (said, lines))

    def losses(self, run):
        return self.losses_in(self.run_job(2, ELASTIC, self.folder, run=run))

    def losses_in(self, lines):
        found = [line.split("losses ", 1)[1] for line in lines if "losses " in line]
        self.assertEqual(len(found), 1, lines)
        self.assertTrue(found[0].startswith("24 "), found)
        return found[0]

    def test_elastic_processes_go_on_without_one_that_is_killed_where_fewer_are_enough(self):
        lines = self.run_job(2, ELASTIC, self.folder, "1", "7", run="fewer",
                             settings=["cluster.min_workers=1", "job.slots=1", "job.global_batch=1"])
        self.assertTrue(any("as rank 0 of 1" in line or "begins at 1 6 as rank 0 of 2" in line for line in lines), lines)
        self.assertTrue(any("losses 24 " in line for line in lines), lines)


if __name__ == "__main__":
    skips.main("torch")
