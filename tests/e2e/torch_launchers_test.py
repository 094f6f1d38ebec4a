#!/usr/bin/python3
"""Processes that torchrun, mpirun or srun starts: connect() takes their number from the launcher's variables."""
import re

import own_workers
import skips
import torch_idioms_test
import torch_worker_test


class LauncherTest(torch_idioms_test.IdiomsTest):
    """The variables of launchers, which connect() reads."""

    SAYS = [*torch_idioms_test.LOADER, "PREPARE", "print('place', trainer.rank, trainer.ranks, trainer.local_rank, trainer.is_main)", *torch_idioms_test.PLAIN_LOOP]
    VARIABLES = {
        "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
        "mpirun": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
        "mpiexec": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
        "srun": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
    }

    def script(self, address, lines):
        text = torch_worker_test.SCRIPT.replace(", {name!r}, join_seconds=2, on_notice=lambda text: None", "").format(
            folder=torch_worker_test.HERE, coordinator=address, lines="\n".join("        " + line for line in lines))
        return self.write("ranked.py", text)

    def test_each_launcher_numbers_the_processes_and_says_where_the_number_comes_from(self):
        lines = [line.replace("PREPARE", torch_idioms_test.PREPARE) for line in self.SAYS]
        digests = set()
        for name, (rank, ranks, local) in self.VARIABLES.items():
            with self.training_job(name, "momentum", workers=2, steps=10) as launch:
                script = self.script(self.address(launch), lines)
                places = [{rank: str(place), ranks: "2", local: str(place), "SLURM_STEP_ID": "0"} for place in (0, 1)]
                with self.python(script, **places[0]) as zero, self.python(script, **places[1]) as one:
                    launch.wait_for_line('"rank-1" joined')
                    digests.add(self.digest_at_end(launch, name, [zero, one]))
            for place, process in enumerate((zero, one)):
                self.assertIn(f"place {place} 2 {place} {place == 0}", process.output)
                self.assertRegex(process.output, f"capstan: rank {place} of 2 is taken from {rank} and {ranks}, as .*slot {place}")
        self.assertEqual(len(digests), 1)

    def test_a_number_of_ranks_that_is_not_the_job_s_is_refused(self):
        with self.training_job("other", "momentum", steps=own_workers.ENDLESS) as launch:
            script = self.script(self.address(launch), [line.replace("PREPARE", torch_idioms_test.PREPARE) for line in self.SAYS])
            for variables, said in (({"RANK": "1", "WORLD_SIZE": "3"}, "^Refused: .*rank 1 of 3, and the job has 2 slots; start 2 ranks, or set job.slots = 3"),
                                    ({"RANK": "1"}, "^Invalid: RANK is '1' and WORLD_SIZE is None.*unset both.*torchrun"),
                                    ({"RANK": "2", "WORLD_SIZE": "2"}, "^Invalid: RANK is '2' and WORLD_SIZE is '2'")):
                with self.python(script, **variables) as process:
                    process.wait()
                self.assertTrue(re.search(said.lstrip("^"), process.output), process.output)

    def test_which_variables_count(self):
        lines = ["from capstan.place import Identity", "def of(*given, **variables):",
                 "    found = Identity.given(*(given or (None, 0)), variables)",
                 "    print(found.rank, found.ranks, found.local_rank, found.binds, bool(found.notice))",
                 "torchrun = {'RANK': '1', 'WORLD_SIZE': '4', 'LOCAL_RANK': '0'}", "slurm = {'SLURM_PROCID': '2', 'SLURM_NTASKS': '3'}",
                 "of()", "of(1, 2, **torchrun)", "of(CAPSTAN_INDEX='1', CAPSTAN_INDEXES='2', **torchrun)", "of(**torchrun, **slurm, SLURM_STEP_ID='0')",
                 "of(**slurm)", "of(**slurm, SLURM_STEP_ID='0')", "of(RANK='0', WORLD_SIZE='1')", "of(WORLD_SIZE='1')", "of(LOCAL_RANK='3')"]
        with self.python("-c", "\n".join(lines)) as process:
            self.assertEqual(process.wait(), 0, process.output)
        self.assertEqual(process.output.splitlines(), [
            "None 0 None False False", "1 2 0 True False", "1 2 1 False False", "1 4 0 True True", "None 0 None False False",
            "2 3 None True True", "None 0 None False False", "None 0 None False False", "None 0 3 False False"])


if __name__ == "__main__":
    skips.main("torch")
