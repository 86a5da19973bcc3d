#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sennit-run: what it refuses and why, that threads which are tasks behave like threads, how few
threads a server needs that creates one for each connection, and that statuses, signals and the
environment are the program's own.
"""
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

BUILD = Path(os.environ["SENNIT_BUILD_DIR"])
SOURCE = Path(os.environ["SENNIT_SOURCE_DIR"])
RUN = BUILD / "tools/run/sennit-run"
THREADS = BUILD / "tests/sennit-run/sennit-run-threads"
CORNERS = BUILD / "tests/sennit-run/sennit-run-corners"
WAITS = BUILD / "tests/sennit-run/sennit-run-waits"
WINDOWS = BUILD / "tests/sennit-run/sennit-run-windows"
BLOCKED = BUILD / "tests/sennit-run/sennit-run-blocked"
SEMAPHORES = BUILD / "tests/sennit-run/sennit-run-semaphores"
APART = BUILD / "tests/sennit-run/sennit-run-apart"
ECHO = BUILD / "tests/sennit-run/sennit-run-echo"
ELF_CLASS = THREADS.read_bytes()[4]  # 1: 32 bits
PROCESSORS = 2
# For a thousand tasks that wait. On an idle machine there are at most ten; beside others a thread
# that the kernel has put aside within the program's code looks like one that blocks, and is
# replaced. bench/run/run.py has the numbers.
FEW_THREADS = 200
CONNECTIONS = 1000
PATIENCE = 200

# Signals that come at the worst moments: SIGUSR1 while a task holds the lock of a list of waiters,
# which is when libsennit-run tries a semaphore; and SIGUSR2 while a task is in the runtime, which
# registers a descriptor. A handler that enters the runtime again there also leaves it. Counts how
# often code that is no task's has not got a mutex that it tried.
INTERRUPTS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sennit/foreign.h>
_Atomic int test_refused;
static int (*real_try)(sem_t *), (*real_try_mutex)(pthread_mutex_t *);
static int (*real_control)(int, int, int, struct epoll_event *);
static _Atomic int busy, lists, calls;
static _Atomic unsigned tries;
__attribute__((constructor)) static void begin(void) {
    *(void **)&real_try = dlvsym(RTLD_NEXT, "sem_trywait", "GLIBC_2.1");
    if (!real_try)
        *(void **)&real_try = dlsym(RTLD_NEXT, "sem_trywait");
    *(void **)&real_try_mutex = dlsym(RTLD_NEXT, "pthread_mutex_trylock");
    *(void **)&real_control = dlsym(RTLD_NEXT, "epoll_ctl");
}
__attribute__((destructor)) static void end(void) {
    dprintf(2, "interrupted: %d lists, %d calls\n", lists, calls);
}
static void interrupt(int number, _Atomic int *count) {
    struct sigaction action;
    sigaction(number, NULL, &action);
    if (action.sa_handler == SIG_DFL || atomic_exchange(&busy, 1))
        return;
    (*count)++;
    raise(number);
    busy = 0;
}
int sem_trywait(sem_t *sem) {
    const struct sn_foreign *task = sn_foreign_self();
    if (task && task->locks && tries++ % 2 == 0) /* its next wait parks */
        interrupt(SIGUSR1, &lists);
    return real_try(sem);
}
int pthread_mutex_trylock(pthread_mutex_t *mutex) {
    if (!real_try_mutex)
        begin();
    const int err = real_try_mutex(mutex);
    test_refused += err && !sn_foreign_self();
    return err;
}
int epoll_ctl(int epoll, int what, int fd, struct epoll_event *event) {
    if (!sn_foreign_self()) {
        interrupt(SIGUSR2, &calls);
        if (sn_foreign_self()) {
            dprintf(2, "a handler has left the runtime\n");
            _Exit(99);
        }
    }
    return real_control(epoll, what, fd, event);
}
"""

# In place of the C library's.
WINDOW = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
void (*test_after_unlock)(pthread_mutex_t *);
static int (*real)(pthread_mutex_t *);
__attribute__((constructor)) static void begin(void) {
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
}
int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    int err;
    if (!real)
        begin();
    err = real(mutex);
    if (test_after_unlock)
        test_after_unlock(mutex);
    return err;
}
"""


def run(*words, **options):
    return subprocess.run([RUN, *words], capture_output=True, text=True, timeout=PATIENCE,
                          check=False, **options)


def under(program, *words, options=(), **more):
    return run("--processors", str(PROCESSORS), *options, program, *words, **more)


def threads_of(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


class Refusals(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = Path(cls.scratch.name)

    def refused(self, status, reason, *words, **options):
        done = run(*words, **options)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertRegex(done.stderr, "^sennit-run: .*" + reason + ".*\n$")

    def copy(self, name, mode=0o755):
        path = self.folder / name
        shutil.copyfile(THREADS, path)
        path.chmod(mode)
        return path

    def script(self, name, first_line):
        path = self.folder / name
        path.write_text(first_line + "\n", encoding="ascii")
        path.chmod(0o755)
        return path

    def compile(self, name, text, *flags):
        path = self.folder / name
        done = subprocess.run([os.environ.get("CC", "cc"), "-x", "c", "-", "-o", path, "-pthread",
                               *os.environ.get("CFLAGS", "").split(), *flags],
                              input=text, text=True, capture_output=True, check=False)
        if done.returncode != 0:
            self.skipTest(f"no program of this kind can be made: {done.stderr[-300:]}")
        return path

    def test_a_name_that_is_not_found_is_127(self):
        self.refused(127, "no-such-program: not found", "no-such-program")
        self.refused(127, "not found", "./no-such-program")
        self.refused(127, "not found", self.folder / "none/threads")

    def test_a_file_that_cannot_be_executed_is_126(self):
        self.refused(126, "cannot be executed", self.copy("data", 0o644))
        self.refused(126, "cannot be executed", self.folder)
        self.refused(126, "neither an ELF program nor a script", self.script("text", "a text"))

    def test_a_damaged_file_is_126(self):
        whole = THREADS.read_bytes()
        for size in (16, 60, 100, 500):
            path = self.copy(f"cut-{size}")
            path.write_bytes(whole[:size])
            self.refused(126, "contradict each other", path)
        # Any byte of the headers, and none ends sennit-run by a signal.
        path = self.copy("damaged")
        for at in range(16, 1000, 7):
            path.write_bytes(whole[:at] + b"\xff" + whole[at + 1:])
            self.assertIn(run("--check", path).returncode, (0, 125, 126, 127), at)

    def test_small_programs_are_judged_by_their_headers(self):
        own = THREADS.read_bytes()[:20]
        reasons = {"locals": "thread-local variables", "static": "linked statically",
                   "cancels": "pthread_cancel", "rights": "setfsuid",
                   "sennit": "uses sennit itself"}
        for seed in sorted((SOURCE / "fuzz/run/seeds/elf").iterdir()):
            path = self.folder / seed.name
            path.write_bytes(seed.read_bytes())
            path.chmod(0o755)
            name, bits = seed.name.split("-")
            if (int(bits) // 32, path.read_bytes()[18:20]) != (own[4], own[18:20]):
                self.refused(125, "another architecture", "--check", path)
            elif name in reasons:
                self.refused(125, reasons[name], "--check", path)
            else:
                self.assertEqual(run("--check", path).returncode, 0, name)

    def test_a_static_program_is_refused(self):
        path = self.compile("static", "int main(void) { return 0; }", "-static")
        self.refused(125, "linked statically", path)

    def test_a_program_with_more_rights_than_its_user_is_refused(self):
        for mode in (0o4755, 0o2755):
            self.refused(125, "set-user-ID", self.copy("rights", mode))

    def test_a_program_with_capabilities_is_refused(self):
        path = self.copy("capable")
        value = bytes.fromhex("0100000200040000000000000000000000000000")
        try:
            os.setxattr(path, "security.capability", value)
        except OSError as error:
            self.skipTest(f"security.capability cannot be set: {error}")
        self.refused(125, "the file has capabilities", path)

    def test_a_program_of_another_architecture_is_refused(self):
        whole = bytearray(THREADS.read_bytes())
        other = self.copy("machine")
        whole[18:20] = (0x1234).to_bytes(2, "little")
        other.write_bytes(whole)
        self.refused(125, "another architecture", other)
        whole = bytearray(THREADS.read_bytes())
        whole[4] = 3 - whole[4]  # the class
        other.write_bytes(whole)
        self.refused(125, "another architecture", other)

    def test_a_program_that_cancels_threads_is_refused_but_for_force(self):
        path = self.compile("cancels", """
            #include <pthread.h>
            #include <unistd.h>
            static void *fn(void *arg) { sleep(1); return arg; }
            int main(void) {
                pthread_t thread;
                pthread_create(&thread, NULL, fn, NULL);
                return pthread_cancel(thread);
            }""")
        self.refused(125, r"pthread_cancel\(\).*--force", path)
        self.refused(125, r"pthread_cancel\(\)", "--check", path)
        self.assertEqual(run("--force", path).returncode, 38)  # ENOSYS

    def test_a_program_that_changes_a_threads_rights_is_refused_but_for_force(self):
        for call in "setfsuid(0)", "setfsgid(0)", "unshare(0)", "setns(-1, 0)":
            path = self.compile("rights-of-a-thread", f"""
                #define _GNU_SOURCE
                #include <sched.h>
                #include <sys/fsuid.h>
                int main(void) {{ return ({call}, 4); }}""")
            self.refused(125, rf"{call.split('(')[0]}\(\), .*--force", path)
            self.assertEqual(run("--force", path).returncode, 4)

    def test_a_program_with_thread_locals_is_refused_but_for_force(self):
        path = self.compile("locals", "static __thread volatile int own;"
                                      "int main(void) { return own + 3; }")
        self.refused(125, "thread-local variables.*--force", path)
        self.assertEqual(run("--force", path).returncode, 3)

    def test_a_script_is_judged_by_its_interpreter(self):
        self.refused(126, "neither", self.script("empty", "#!" + str(self.script("text", "text"))))
        self.refused(127, "No such file", self.script("none", "#!/no/such/interpreter"))
        self.refused(127, "not found", self.script("nowhere", "#!/usr/bin/env no-such-program"))
        self.refused(125, "by its name", self.script("words", "#!/usr/bin/env -S sh -e"))
        rights = self.copy("rights", 0o4755)
        self.refused(125, "set-user-ID", self.script("more", f"#!{rights}"))
        loop = self.folder / "loop"
        self.refused(126, "too many", self.script("loop", f"#!{loop}"))

    def test_a_script_whose_interpreter_is_a_script_for_env_is_refused(self):
        inner = self.script("inner", f"#!/usr/bin/env {THREADS.name}")
        path = {**os.environ, "PATH": f"{THREADS.parent}:/usr/bin:/bin"}
        self.refused(125, "inner: .*itself a script for env", self.script("outer", f"#!{inner}"),
                     env=path)

    def test_an_interpreter_that_is_no_regular_file_is_126(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo, 0o755)
        self.refused(126, "fifo: it is no regular file", self.script("waits", f"#!{fifo}"))

    def test_a_script_may_have_a_set_user_id_bit_which_the_kernel_ignores(self):
        path = self.script("bit", f"#!{THREADS} exit")
        path.chmod(0o4755)
        done = run(path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def library(self, name, text):
        return self.compile(name, text, "-shared", "-fPIC", f"-Wl,-soname,{name}")

    def linked_with(self, library, text="int value(void); int main(void) { return value(); }"):
        return self.compile("linked", text, f"-L{self.folder}", f"-l:{library.name}",
                            f"-Wl,-rpath,{self.folder}")

    def test_a_program_of_a_library_whose_state_is_a_threads_is_refused_but_for_force(self):
        for name in "libjvm.so", "libjemalloc.so.2":
            path = self.linked_with(self.library(
                name, "static __thread volatile int own = 4; int value(void) { return own; }"))
            self.refused(125, f"uses {name}, which keeps state for each thread.*--force", path)
            self.assertEqual(run("--force", path).returncode, 4)

    def test_check_names_libraries_with_thread_locals(self):
        reported = "sennit-run: {} has thread-local variables, which tasks on the same thread share"
        path = self.linked_with(self.library(
            "libkept.so", "static __thread volatile int own; int value(void) { return own; }"))
        done = run("--check", path)
        self.assertEqual((done.returncode, done.stderr), (0, reported.format("libkept.so") + "\n"))
        path = self.linked_with(self.library("libfreed.so", """
            #include <pthread.h>
            static __thread volatile int own;
            int value(void) { pthread_key_t key; return own + pthread_key_create(&key, NULL); }"""))
        done = run("--check", path)
        self.assertEqual((done.returncode, done.stderr),
                         (0, reported.format("libfreed.so") +
                          ", and which the end of a task may free\n"))
        self.assertEqual(run("--check", "--quiet", path).stderr, "")
        self.assertEqual(run(path).stderr, "")  # it creates no thread
        # Those of a program that only --force runs are named, too.
        path = self.linked_with(self.folder / "libkept.so", """
            #include <pthread.h>
            int value(void);
            int main(void) { return value() + pthread_cancel(pthread_self()); }""")
        done = run("--check", path)
        self.assertEqual(done.returncode, 125)
        self.assertRegex(done.stderr, "(?s)^sennit-run: libkept.so .*\nsennit-run: .*--force")

    def test_a_program_that_opens_such_a_library_ends_when_it_creates_a_thread(self):
        self.library("libjvm.so", "__thread int own;")
        path = self.compile("opens", """
            #include <dlfcn.h>
            #include <pthread.h>
            static void *fn(void *arg) { return arg; }
            int main(int argc, char **argv) {
                pthread_t thread;
                if (!dlopen(argv[argc - 1], RTLD_NOW)) return 1;
                return pthread_create(&thread, NULL, fn, NULL) || pthread_join(thread, NULL);
            }""", "-ldl")
        library = self.folder / "libjvm.so"
        self.refused(125, "has loaded libjvm.so.*--force", path, library)
        done = run("--force", "--quiet", path, library)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_library_of_sennit_that_is_missing_is_named(self):
        (self.folder / "bin").mkdir()
        program = shutil.copy(RUN, self.folder / "bin/sennit-run")
        for name in r"libsennit-run\.so", r"libsennit-hooks\.so[.0-9]*", r"libsennit\.so[.0-9]*":
            done = subprocess.run([program, THREADS, "exit"], capture_output=True, text=True,
                                  timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 125, done.stderr)
            found = re.fullmatch(rf"sennit-run: (/\S*/{name}): No such file or directory, so its "
                                 r"libraries cannot be preloaded\n", done.stderr)
            self.assertIsNotNone(found, done.stderr)
            missing = Path(os.path.normpath(found[1]))
            if self.folder not in missing.parents:
                return  # an absolute folder of libraries
            missing.parent.mkdir(parents=True, exist_ok=True)
            Path(found[1]).touch()

    def test_a_script_runs(self):
        done = run(self.script("first", f"#!{THREADS} exit"), env={**os.environ, "X": "1"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        path = self.script("second", f"#!/usr/bin/env {THREADS.name}")
        done = run(path, env={**os.environ, "PATH": f"{THREADS.parent}:/usr/bin:/bin"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_check_runs_nothing(self):
        done = run("--check", THREADS, "exit", "5")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_wrong_options_are_125(self):
        for words in ([], ["--check"], ["--processors", "0", "true"], ["-p", "1025", "true"],
                      ["-p", "two", "true"], ["--stack", "1K", "true"], ["--stack=2G", "true"],
                      ["--stack=1Mx", "true"], ["--unknown", "true"]):
            done = run(*words)
            self.assertEqual(done.returncode, 125, words)
            self.assertIn("sennit-run", done.stderr)

    def test_help_and_version(self):
        done = run("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(all(len(line) <= 80 for line in done.stdout.splitlines()))
        for option in ("--processors", "--stack", "--stats", "--check", "--force", "--quiet"):
            self.assertIn(option, done.stdout)
        self.assertRegex(run("--version").stdout, r"^sennit-run \d+\.\d+\.\d+\n$")


class Programs(unittest.TestCase):
    def test_threads_that_are_tasks_behave_like_threads(self):
        # A 32-bit build has it also with 64-bit times.
        for program in sorted(THREADS.parent.glob("sennit-run-threads*")):
            plain = subprocess.run([program], capture_output=True, text=True, timeout=PATIENCE,
                                   check=False)
            self.assertEqual((plain.returncode, plain.stdout), (0, ""))
            for options in ((), ("--main",)):
                done = under(program, options=("--stats", *options))
                self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
                counted = re.search(r"became tasks: (\d+), .*did not: 0\n", done.stderr)
                self.assertGreater(int(counted[1]), 50, done.stderr)

    def test_what_the_kernel_keeps_for_a_thread_is_one_tasks(self):
        for what in ["view", *(["identity"] if os.geteuid() == 0 else [])]:
            plain = subprocess.run([APART, what], capture_output=True, text=True, timeout=PATIENCE,
                                   check=False)
            if (plain.returncode, plain.stdout) != (0, ""):
                self.skipTest(f"threads cannot change that here: {plain.stdout}")
            for options in ((), ("--main",)):
                done = run("--force", "--processors", "1", "--stats", *options, APART, what)
                self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
                self.assertRegex(done.stderr, "(?m)^sennit-run: threads that became tasks: [1-9]")

    def test_a_thousand_threads_that_wait_need_few(self):
        for what in "count", "wait":
            done = under(THREADS, what, "1000", options=("--stack", "64K"))
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertLessEqual(int(done.stdout), FEW_THREADS, what)

    def test_stats_count_what_parked(self):
        done = under(THREADS, "wait", "100", options=("--stats",))
        self.assertRegex(done.stderr, "(?m)^sennit-run: threads that became tasks: 100, "
                                      "alive now: 100, that did not: 0$")
        parked = re.search(r"calls parked: (\d+), moved to another thread: 0$", done.stderr, re.M)
        self.assertGreaterEqual(int(parked[1]), 99, done.stderr)

    def test_stats_are_written_also_when_the_program_has_closed_stderr(self):
        done = under(THREADS, "closed", "6", options=("--stats",))
        self.assertEqual(done.returncode, 6)
        self.assertIn("threads that became tasks: 1,", done.stderr)

    def library(self, path, text, *flags):
        done = subprocess.run(
            [os.environ.get("CC", "cc"), "-x", "c", "-", "-shared", "-fPIC", "-pthread",
             "-o", path, *os.environ.get("CFLAGS", "").split(), *flags],
            input=text, text=True, capture_output=True, check=False)
        if done.returncode != 0:
            self.skipTest(f"no library can be made: {done.stderr[-300:]}")

    def test_libraries_with_thread_locals_are_reported(self):
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "liblocals.so"
            self.library(library, "__thread int sennit_test_local = 1;")
            environment = {**os.environ, "LD_PRELOAD": str(library)}
            done = under(THREADS, "exit", "0", env=environment)
            self.assertEqual(done.stderr, "sennit-run: liblocals.so has thread-local variables, "
                                          "which tasks on the same thread share\n")
            done = under(THREADS, "exit", "0", options=("--quiet",), env=environment)
            self.assertEqual(done.stderr, "")

    def test_the_status_is_that_of_the_program(self):
        self.assertEqual(under(THREADS, "exit", "7").returncode, 7)
        done = under(THREADS, "leave")
        self.assertEqual((done.returncode, done.stdout), (0, "late\n"))

    def test_children_start_their_own_runtime_and_are_not_adopted(self):
        done = under(THREADS, "fork")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        for former in ({}, {"LD_PRELOAD": str(BUILD / "src/libsennit.so")}):
            done = run(THREADS, "preload", env={**os.environ, **former})
            self.assertEqual(done.stdout,
                             f"LD_PRELOAD={former.get('LD_PRELOAD', '(none)')}\n", done.stderr)

    def corners(self, *words, out="", options=(), program=CORNERS, **more):
        """A corner holds for threads, and for tasks."""
        plain = subprocess.run([program, *words], capture_output=True, text=True, check=False,
                               timeout=PATIENCE, **more)
        self.assertEqual((plain.returncode, plain.stdout), (0, out))
        done = under(program, *words, options=("--stats", *options), **more)
        self.assertEqual((done.returncode, done.stdout), (0, out), done.stderr)
        return done.stderr

    def test_many_may_wait_at_the_same_time(self):
        for kind in "semaphores", "condition", "barrier", "mutex", "rwlock":
            plain = subprocess.run([WAITS, kind, "100"], capture_output=True, text=True,
                                   timeout=PATIENCE, check=False)
            self.assertEqual(plain.returncode, 0, kind)
            done = under(WAITS, kind, "100")
            self.assertEqual(done.returncode, 0, (kind, done.stderr))

    @unittest.skipIf(ELF_CLASS == 1, "no address space for as many stacks")
    def test_each_task_may_have_a_thread(self):
        # More than SENNIT_MAX_THREADS is by default, as it is if empty: the last one would not
        # begin. The runtime has some threads in addition.
        try:
            plain = subprocess.run([WAITS, "barrier", "10100"], capture_output=True, text=True,
                                   timeout=PATIENCE, check=False)
        except subprocess.TimeoutExpired:
            self.skipTest("so many threads take too long")
        if plain.returncode != 0:
            self.skipTest(f"so many threads cannot be started: {plain.stderr}")
        done = under(WAITS, "barrier", "10050", options=("--stack", "64K"),
                     env={**os.environ, "SENNIT_MAX_THREADS": ""})
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_thousand_threads_that_wait_for_a_semaphore_need_few(self):
        done = under(WAITS, "semaphores", "1000", options=("--stack", "64K"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertLessEqual(int(done.stdout), FEW_THREADS)

    def test_semaphores_are_those_of_posix(self):
        self.corners(program=SEMAPHORES)
        self.corners("leave", program=SEMAPHORES, out="late\n")
        for what in "crowd", "signals", "each":  # how many waits find a permit depends on the CPUs
            parked = re.search(r"calls parked: (\d+)", self.corners(what, program=SEMAPHORES))
            self.assertGreater(int(parked[1]), 0, what)

    def test_a_thread_that_does_not_own_the_mutex_does_not_wait(self):
        self.corners("refused", program=WAITS)

    def test_no_memory_for_a_timer_does_not_end_a_wait(self):
        self.corners("memory", program=WAITS)
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "libmemory.so"
            # In place of libsennit's.
            self.library(library, """
                #include <errno.h>
                #include <sennit/semaphore.h>
                int sn_semaphore_acquire_until(sn_semaphore *semaphore, int64_t deadline) {
                    return semaphore && deadline ? -ENOMEM : 0;
                }""", f"-I{SOURCE}/include")
            done = under(WAITS, "memory", env={**os.environ, "LD_PRELOAD": str(library)})
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def windows(self, *words):
        """Returns the output of a program with a library that widens the window."""
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "libwindow.so"
            self.library(library, WINDOW)
            done = under(WINDOWS, *words, env={**os.environ, "LD_PRELOAD": str(library)})
        self.assertEqual((done.returncode, done.stderr), (0, ""), (words, done.stdout))
        return done.stdout

    def test_signals_of_other_variables_do_not_keep_a_thread_from_waiting(self):
        self.corners("collide", program=WINDOWS)
        self.windows("collide")

    def test_no_signal_between_the_release_of_the_mutex_and_the_wait_is_lost(self):
        # A seed that fails is in the message.
        for seed in random.sample(range(1 << 32), 3):
            self.assertGreater(int(self.windows("random", str(seed))), 0)

    def test_a_handler_may_post_or_block_wherever_it_interrupts(self):
        self.corners("runtime", program=SEMAPHORES)
        with tempfile.TemporaryDirectory() as folder:
            library, versions = Path(folder) / "libinterrupts.so", Path(folder) / "versions"
            # The one that libsennit-run finds on i386.
            versions.write_text("GLIBC_2.1 { global: sem_trywait; };\n", encoding="ascii")
            self.library(library, INTERRUPTS, f"-I{SOURCE}/include",
                         f"-Wl,--version-script={versions}")
            environment = {**os.environ, "LD_PRELOAD": str(library)}
            done = under(BLOCKED, env=environment)
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
            done = under(SEMAPHORES, "runtime", env=environment)
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
            interrupted = re.search(r"interrupted: (\d+) lists, (\d+) calls", done.stderr)
            self.assertGreater(int(interrupted[1]), 0)
            self.assertGreater(int(interrupted[2]), 0)

    def test_a_broadcast_does_not_use_a_variable_that_a_task_may_have_destroyed(self):
        with tempfile.TemporaryDirectory() as folder:
            library, versions = Path(folder) / "libbroadcast.so", Path(folder) / "versions"
            versions.write_text("GLIBC_2.3.2 { global: pthread_cond_broadcast; local: *; };\n",
                                encoding="ascii")
            # In place of the C library's. A task that can run does so before it returns.
            self.library(library, """
                #include <pthread.h>
                #include <unistd.h>
                int pthread_cond_broadcast(pthread_cond_t *cond) {
                    usleep(1000);
                    return *(volatile char *)cond & 0;
                }""", f"-Wl,--version-script={versions}")
            done = under(WAITS, "destroy", options=("--processors", "1"),
                         env={**os.environ, "LD_PRELOAD": str(library)})
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_settings_are_for_the_program_and_not_for_its_children(self):
        user = {"SENNIT_IDLE_MS": "1000", "SENNIT_DUMP_SIGNAL": "12", "SENNIT_PROCS": "3"}
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith("SENNIT_")}
        for own in {}, user:
            done = run("--processors", "1", WAITS, "execute", "env", env={**clean, **own})
            found = dict(re.findall("(?m)^(SENNIT_.*?)=(.*)$", done.stdout))
            self.assertEqual((done.returncode, found), (0, own), done.stderr)
            inner = (RUN, "--stats", THREADS, "exit", "0")
            plain = subprocess.run(inner, capture_output=True, text=True, timeout=PATIENCE,
                                   check=False, env={**clean, **own})
            # One of the two is not the number of CPUs.
            for processors in "5", "6":
                done = run("--processors", processors, WAITS, "execute", *inner,
                           env={**clean, **own})
                counts = [re.search(r"processors: (\d+)", text)[1]
                          for text in (plain.stderr, done.stderr)]
                self.assertEqual(*counts)
                if own:
                    self.assertEqual(counts[0], "3")
                # For the program itself the option counts.
                done = run("--processors", processors, "--stats", THREADS, "exit", "0",
                           env={**clean, **own})
                self.assertIn(f"processors: {processors},", done.stderr)

    def test_settings_are_made_before_main_begins(self):
        for user in {}, {"SENNIT_MAX_THREADS": "300", "SENNIT_DUMP_SIGNAL": "12"}:
            said = self.corners("settings", env={**os.environ, **user})
            self.assertIn("became tasks: 1,", said)

    def test_deleted_keys_have_no_destructors(self):
        self.corners("keys")

    @unittest.skipIf(subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode,
                     "no mount namespace can be made")
    def test_no_proc_is_needed(self):
        hide = 'mount -t tmpfs none /proc && exec "$@"'
        done = subprocess.run(["unshare", "-m", "sh", "-c", hide, "sh", RUN, "--stats", THREADS],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertRegex(done.stderr, r"threads that became tasks: [1-9]")

    @unittest.skipIf(subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode,
                     "no mount namespace can be made")
    def test_without_proc_a_script_is_not_taken_for_the_program(self):
        hide = 'mount -t tmpfs none /proc && exec "$@"'
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "script"
            script.write_text(f"#!{RUN} {THREADS}\n")
            script.chmod(0o755)
            done = subprocess.run(["unshare", "-m", "sh", "-c", hide, "sh", script],
                                  capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("its own path is not known", done.stderr)

    def test_its_file_may_be_deleted(self):
        with tempfile.TemporaryDirectory() as folder:
            build = Path(RUN).resolve().parent
            place = Path(folder) / "tools" / "run"
            place.mkdir(parents=True)
            (Path(folder) / "src").symlink_to(build.parent.parent / "src")
            (place / "libsennit-run.so").symlink_to(build / "libsennit-run.so")
            shutil.copy(RUN, place / "deleted")
            fd = os.open(place / "deleted", os.O_RDONLY)
            os.unlink(place / "deleted")
            done = subprocess.run(["sennit-run", "--stats", THREADS], pass_fds=[fd],
                                  executable=f"/proc/self/fd/{fd}", capture_output=True,
                                  text=True, timeout=PATIENCE, check=False)
            os.close(fd)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"threads that became tasks: [1-9]")

    def test_the_owner_of_a_robust_mutex_may_end(self):
        self.corners("robust")

    def test_handlers_of_fork_may_wake_join_and_create_threads(self):
        self.corners("handlers")

    def test_a_child_of_fork_may_return_from_the_function_of_its_thread(self):
        self.corners("child")

    def test_a_child_of_fork_is_the_thread_that_it_was_and_the_others_are_gone(self):
        self.corners("identity")
        done = under(CORNERS, "identity", "others")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_a_child_that_no_handler_knows_of_waits_as_a_thread(self):
        self.corners("bare")
        done = under(CORNERS, "bare", "others")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_such_a_child_may_create_the_first_thread(self):
        self.corners("first")

    def test_a_library_may_create_the_first_thread_while_it_is_loaded(self):
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "libthread.so"
            self.library(library, """
                #include <pthread.h>
                static void *fn(void *arg) { return arg; }
                __attribute__((constructor)) static void begin(void) {
                    pthread_t thread;
                    if (pthread_create(&thread, 0, fn, 0) == 0)
                        pthread_join(thread, 0);
                }""")
            self.assertIn("became tasks: 1,", self.corners("open", library))

    def test_cleanup_handlers_that_defer_cancellation_run(self):
        self.corners("defer")

    def test_a_signal_mask_ends_with_its_thread(self):
        self.corners("mask", options=("--processors", "1"))

    def test_a_time_long_past_is_over(self):
        self.corners("times")

    def test_the_runtime_takes_no_standard_descriptor(self):
        self.corners("input")

    def test_stats_go_to_no_other_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "other"
            self.corners("replace", path)
            self.assertEqual(path.read_bytes(), b"")

    def test_main_that_leaves_cleans_up_and_the_process_ends_with_its_last_thread(self):
        own = "pushed\nvalue\n"
        self.corners("alone", out=own)
        stats = self.corners("leave", out=own + "late\n")
        self.assertIn("became tasks: 1, alive now: 0,", stats)
        self.corners("early", out=own + "late\n", env={**os.environ, "CORNERS_EARLY": "1"})
        stats = self.corners("leave", out=own + "late\n",
                             env={**os.environ, "SENNIT_MAX_THREADS": "1"})
        self.assertIn("the runtime cannot be started", stats)

    def test_a_signal_ends_the_calls_of_main(self):
        with subprocess.Popen([RUN, THREADS, "signal"], stdout=subprocess.PIPE,
                              text=True) as process:
            self.addCleanup(process.kill)
            self.assertEqual(process.stdout.readline(), "ready\n")
            # It may come before main() waits.
            while True:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(0.1)
                    break
                except subprocess.TimeoutExpired:
                    pass
            self.assertEqual((process.returncode, process.stdout.read()), (0, "interrupted\n"))

    def test_a_thread_waits_for_a_signal_that_main_has_blocked(self):
        done = under(THREADS, "sigwait")
        self.assertEqual((done.returncode, done.stdout), (0, "waited\n"), done.stderr)

    def test_a_signal_without_a_handler_ends_the_program(self):
        with subprocess.Popen([RUN, ECHO], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(PATIENCE), -signal.SIGTERM)

    def test_a_server_with_a_thread_for_each_connection_needs_few_threads(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = CONNECTIONS + 100
        if soft < wanted:
            if hard != resource.RLIM_INFINITY and hard < wanted:
                self.skipTest(f"only {hard} descriptors are allowed")
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        with subprocess.Popen([RUN, "-p", str(PROCESSORS), ECHO], stdout=subprocess.PIPE,
                              text=True) as server:
            self.addCleanup(server.kill)
            port = int(server.stdout.readline())
            clients = []
            for i in range(CONNECTIONS):
                clients.append(socket.create_connection(("127.0.0.1", port), PATIENCE))
                self.addCleanup(clients[-1].close)
                clients[-1].sendall(b"%d" % i)
                self.assertEqual(clients[-1].recv(100), b"%d" % i)
            self.assertLessEqual(threads_of(server.pid), FEW_THREADS)
            for text in (b"one", b"two"):
                for client in clients:
                    client.sendall(text)
                for client in clients:
                    self.assertEqual(client.recv(100), text)
            self.assertLessEqual(threads_of(server.pid), FEW_THREADS)
            server.kill()


if __name__ == "__main__":
    unittest.main()
