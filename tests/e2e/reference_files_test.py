#!/usr/bin/python3
"""Completion in real shells, manual pages as man checks them, and the list of options against what the programs accept."""
import json
import os
import shutil
import subprocess
import unittest

import harness
import installed_prefix
import skips

PROGRAMS = "capstan", "capstan-server", "capstan-worker"


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=harness.DEADLINE, check=True, **options).stdout


def capstan(*arguments):
    return run(harness.program("capstan"), *arguments)


def need_program(test, program):
    if not shutil.which(program):
        skips.skip(test, f"{program} is not there; scripts/install-deps --test installs it")


class BashTest(harness.JobTest):
    """Bash itself splits the line and calls the function that the script has named for the program."""

    DRIVER = """
source "$1"; shift
options=
COMP_LINE=$1 COMP_POINT=${#1}
read -r -a COMP_WORDS <<<"${1//=/ = }"
[[ $1 != *' ' ]] || COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
specification=$(complete -p "${COMP_WORDS[0]##*/}")
function=${specification#*-F }
compopt() { options+=" $2"; }
"${function%% *}" "${COMP_WORDS[0]}" "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
echo "options:$options"
printf '%s\\n' "${COMPREPLY[@]}"
"""

    def complete(self, line):
        """Returns what bash offers for the end of a line, and the options of the completion."""
        script = self.write("completion.bash", capstan("completion", "bash"))
        options, *offered = run("/bin/bash", "-uc", self.DRIVER, "driver", script, line).splitlines()
        return [word for word in offered if word], options.removeprefix("options:").split()

    def test_commands_and_their_commands_are_offered(self):
        self.assertEqual(self.complete("capstan lau")[0], ["launch"])
        self.assertEqual(sorted(self.complete("capstan snapshot ")[0]), ["delete", "export", "import", "list", "verify"])
        self.assertIn("doctor", self.complete("capstan ")[0])

    def test_options_are_those_of_the_command(self):
        self.assertEqual(self.complete("capstan launch --max")[0], ["--max-restarts"])
        self.assertIn("--step", self.complete("capstan snapshot export --")[0])
        self.assertNotIn("--max-restarts", self.complete("capstan bench -")[0])
        self.assertEqual(self.complete("capstan-server --ind")[0], ["--index"])
        self.assertEqual(self.complete("/usr/bin/capstan-worker --data")[0], ["--data-root"])
        self.assertEqual(self.complete("capstan-server --events")[0], [], "a hidden option is offered")

    def test_values_are_words_keys_or_files(self):
        self.assertEqual(self.complete("capstan bench -o ")[0], ["table", "json"])
        self.assertEqual(self.complete("capstan bench --output=j")[0], ["json"])
        self.assertEqual(self.complete("capstan launch job.toml --set optimizer.l"), (["optimizer.lr=", "optimizer.lr_decay="], ["nospace"]))
        self.assertEqual(self.complete("capstan completion ")[0], ["bash", "zsh", "fish"])
        self.assertEqual(self.complete("capstan launch --run-dir "), ([], ["default"]))
        self.assertEqual(self.complete("capstan launch "), ([], ["default"]))
        self.assertEqual(self.complete("capstan launch --max-restarts "), ([], []))

    def test_a_program_of_the_users_own_is_completed_as_a_command(self):
        self.assertIn("bash", self.complete("capstan launch job.toml -- bas")[0])


class OtherShellsTest(harness.JobTest):
    def test_zsh_reads_the_script_and_offers_commands(self):
        need_program(self, "zsh")
        script = self.write("_capstan", capstan("completion", "zsh"))
        run("zsh", "-n", script)
        # compsys calls _arguments and _describe; they are replaced by functions that print what they are given.
        driver = (f"compdef() {{ }}; _arguments() {{ print -l -- $@; state=command; line=() }}; "
                  f"_describe() {{ print -l -- ${{(P)2}} }}; service=capstan; source {script}")
        offered = run("zsh", "-fc", driver)
        self.assertIn("launch:Run a whole job on this machine.", offered)
        self.assertIn("*::argument:->argument", offered)
        driver = driver.replace("service=capstan;", "service=capstan-server;")
        self.assertIn("(--index)--index[be server number INDEX, from 0]:value: ", run("zsh", "-fc", driver))

    def test_fish_reads_the_script_and_offers_commands_and_words(self):
        need_program(self, "fish")
        script = self.write("capstan.fish", capstan("completion", "fish"))
        run("fish", "-n", script)

        def complete(line):
            environment = {**os.environ, "HOME": self.folder, "XDG_CONFIG_HOME": self.folder, "XDG_DATA_HOME": self.folder}
            offered = run("fish", "--no-config", "-c", f"source {script}; complete -C '{line}'", env=environment)
            return [row.split("\t")[0] for row in offered.splitlines()]
        self.assertEqual(complete("capstan lau"), ["launch"])
        self.assertEqual(sorted(complete("capstan snapshot ")), ["delete", "export", "import", "list", "verify"])
        self.assertEqual(complete("capstan launch --max"), ["--max-restarts"])
        self.assertEqual(sorted(complete("capstan bench -o ")), ["json", "table"])
        self.assertEqual(complete("capstan launch --set optimizer.l"), ["optimizer.lr=", "optimizer.lr_decay="])
        self.assertEqual(complete("capstan-server --ind"), ["--index"])


class ManPageTest(harness.JobTest):
    def test_pages_have_no_fault_that_mandoc_finds(self):
        need_program(self, "mandoc")
        for name in PROGRAMS:
            with self.subTest(name):
                page = self.write(f"{name}.1", capstan("man", name))
                checked = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True,
                                         timeout=harness.DEADLINE, check=False)
                self.assertEqual(checked.stdout + checked.stderr, "")
                self.assertEqual(checked.returncode, 0)

    def test_a_page_shows_commands_options_and_exit_codes(self):
        need_program(self, "mandoc")
        text = run("mandoc", "-T", "utf8", self.write("capstan.1", capstan("man")))
        text = text.replace("\b", "")
        for words in ("NAME", "SYNOPSIS", "EXIT STATUS", "SEE ALSO"):
            self.assertIn(words[0] * 2, text)  # in bold: each letter twice
        plain = run("mandoc", "-T", "ascii", "-O", "width=1000", self.path("capstan.1"))
        plain = "".join(c for i, c in enumerate(plain) if plain[i + 1:i + 2] != "\b" and c != "\b")
        for part in ("capstan snapshot verify", "--max-restarts NUMBER", "Wrong use:", "capstan-server(1)"):
            self.assertIn(part, plain)


class InstalledTest(unittest.TestCase):
    def test_all_is_where_man_and_the_shells_look_for_it(self):
        share = os.path.join(installed_prefix.prefix(harness.BIN), "share")
        wanted = {"zsh/site-functions/_capstan": capstan("completion", "zsh")}
        for name in PROGRAMS:
            wanted[f"man/man1/{name}.1"] = capstan("man", name)
            wanted[f"bash-completion/completions/{name}"] = capstan("completion", "bash")
            wanted[f"fish/vendor_completions.d/{name}.fish"] = capstan("completion", "fish")
        for name, text in wanted.items():
            with self.subTest(name), open(os.path.join(share, name), encoding="utf-8") as file:
                self.assertEqual(file.read(), text)


class OptionsTest(unittest.TestCase):
    def test_the_list_names_each_option_that_the_help_shows(self):
        programs = {program["name"]: program for program in json.loads(capstan("options", "-o", "json"))}
        self.assertEqual(tuple(programs), PROGRAMS)
        for name, program in programs.items():
            self.check(program, [name])

    def check(self, command, path):
        text = run(harness.program(path[0]), *path[1:], "--help")
        shown = {word.rstrip(",") for line in text.splitlines() for word in line.split()[:1] if word.startswith("-")}
        shown = {name for word in shown for name in word.split(",")}
        known = {name for option in command["options"] for name in option["names"]}
        with self.subTest(" ".join(path)):
            self.assertLessEqual(shown, known)
            self.assertIn("--help", known)
            for option in command["options"]:
                self.assertTrue(option["help"], option)
        for below in command["commands"]:
            self.check(below, [*path, below["name"]])

    def test_a_wrong_command_suggests_one_from_the_list(self):
        wrong = subprocess.run([harness.program("capstan"), "snapshot", "verfy"], capture_output=True, text=True, check=False,
                               timeout=harness.DEADLINE)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn('no command of capstan snapshot is named "verfy"; did you mean "verify"?', wrong.stderr)


class ExplainTest(unittest.TestCase):
    def test_an_error_of_the_programs_is_explained_by_the_word_that_they_print(self):
        self.assertIn("What to do:", capstan("explain", "capstan.errors.Stale: the round is over"))
        rows = json.loads(capstan("explain", "--all", "-o", "json"))
        self.assertEqual([row["id"] for row in rows][:3], ["invalid", "busy", "stale"])
        self.assertIn("exit-137", capstan("explain"))

    def test_an_unknown_code_is_wrong_use(self):
        for word, part in (("stael", 'did you mean "stale"?'), ("optimizer.lr", "docs/reference/job-file.md")):
            wrong = subprocess.run([harness.program("capstan"), "explain", word], capture_output=True, text=True, check=False,
                                   timeout=harness.DEADLINE)
            self.assertEqual(wrong.returncode, 2)
            self.assertIn(part, wrong.stderr)


if __name__ == "__main__":
    skips.main()
