#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sennit-run: a signal handler may fork wherever it interrupts the runtime, its locks, or another
fork().
"""
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

BUILD = Path(os.environ["SENNIT_BUILD_DIR"])
SOURCE = Path(os.environ["SENNIT_SOURCE_DIR"])
FORKS = BUILD / "tests/sennit-run/sennit-run-forks"
PATIENCE = 200

# Raises the signal while the calling thread has a mutex, which is one of libsennit-run's, in system
# calls of the runtime, which may have locks then, and where a thread begins, which may take it only
# when it unblocks it. "revoked": with such a mutex in a task that has lost its processor. Also makes
# calls of libsennit for main(), which is not linked with that.
LIBRARY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <sennit/blocking.h>
#include <sennit/foreign.h>
#include <sennit/run.h>
#include <sennit/scan.h>
#include <sennit/semaphore.h>
_Atomic int test_locks, test_calls, test_wakes, test_ends, test_starts, test_revoked, test_scans,
    test_stats, test_releases;
static const struct {
    const char *name;
    _Atomic int *count;
} places[] = {
    {"locks", &test_locks}, {"calls", &test_calls}, {"wakes", &test_wakes}, {"ends", &test_ends},
    {"starts", &test_starts}, {"revoked", &test_revoked}, {"scans", &test_scans},
    {"stats", &test_stats}, {"releases", &test_releases},
};
#define SN_LEASE_REVOKED 3 /* src/sched/lease.h */
#define MOST_REVOKED 3
static _Atomic int busy, *wanted; /* wanted: the counter of what is interrupted */
static int (*real_lock)(pthread_mutex_t *), (*real_unlock)(pthread_mutex_t *);
static int (*real_control)(int, int, int, struct epoll_event *);
static int (*real_detach)(pthread_t), (*real_mask)(int, const sigset_t *, sigset_t *);
static int (*real_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static long (*real_syscall)(long, ...);
__attribute__((constructor)) static void begin(void) {
    const char *where = getenv("TEST_INTERRUPTS");
    for (unsigned i = 0; where && i < sizeof places / sizeof *places; i++)
        if (strcmp(where, places[i].name) == 0)
            wanted = places[i].count;
    *(void **)&real_syscall = dlsym(RTLD_NEXT, "syscall");
    *(void **)&real_control = dlsym(RTLD_NEXT, "epoll_ctl");
    *(void **)&real_lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    *(void **)&real_unlock = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    *(void **)&real_detach = dlsym(RTLD_NEXT, "pthread_detach");
    *(void **)&real_mask = dlsym(RTLD_NEXT, "pthread_sigmask");
    *(void **)&real_create = dlsym(RTLD_NEXT, "pthread_create");
}
__attribute__((destructor)) static void end(void) {
    if (wanted)
        dprintf(2, "interrupted: %d %s\n", *wanted, getenv("TEST_INTERRUPTS"));
}
static int is_handled(void) {
    struct sigaction action;
    sigaction(SIGUSR1, NULL, &action);
    return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}
static void interrupt(_Atomic int *count) {
    sigset_t mask;
    if (count != wanted || atomic_exchange(&busy, 1))
        return;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    if (is_handled() && !sigismember(&mask, SIGUSR1)) {
        (*count)++;
        raise(SIGUSR1);
    }
    busy = 0;
}
/* As in a blocking bracket: the monitor takes the processor away, if another task waits for it. */
static void interrupt_revoked(void) {
    const struct timespec moment = {.tv_nsec = 1000000};
    struct sn_private_lease *lease = sn_private_current_slow();
    if (wanted != &test_revoked || !sn_foreign_self() || test_revoked >= MOST_REVOKED)
        return;
    __atomic_store_n(&lease->blocking, "", __ATOMIC_RELAXED);
    while (__atomic_load_n(&lease->word, __ATOMIC_SEQ_CST) != SN_LEASE_REVOKED)
        real_syscall(SYS_nanosleep, &moment, NULL);
    interrupt(&test_revoked);
    __atomic_store_n(&lease->blocking, NULL, __ATOMIC_RELAXED);
}
int pthread_mutex_lock(pthread_mutex_t *mutex) {
    if (!real_lock)
        begin();
    const int err = real_lock(mutex);
    interrupt(&test_locks);
    interrupt_revoked();
    return err;
}
int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    interrupt(&test_locks);
    return real_unlock(mutex);
}
int epoll_ctl(int epoll, int what, int fd, struct epoll_event *event) {
    if (!sn_foreign_self())
        interrupt(&test_calls);
    return real_control(epoll, what, fd, event);
}
/* Of a thread that ends: it may have blocked the signal, which then comes later. */
int pthread_detach(pthread_t thread) {
    if (wanted == &test_ends && pthread_equal(thread, pthread_self())) {
        raise(SIGUSR1);
        test_ends++;
    }
    return real_detach(thread);
}
/* Where the signal is blocked, it comes when the thread unblocks it. Only that is counted. */
struct start {
    void *(*function)(void *);
    void *arg;
};
static void *start_interrupted(void *arg) {
    const struct start start = *(struct start *)arg;
    free(arg);
    if (wanted == &test_starts && is_handled())
        raise(SIGUSR1);
    return start.function(start.arg);
}
static int waits(void) {
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1);
}
int pthread_sigmask(int how, const sigset_t *set, sigset_t *former) {
    if (!real_mask)
        begin();
    const int did = wanted == &test_starts && waits();
    const int err = real_mask(how, set, former);
    if (did && !waits())
        test_starts++;
    return err;
}
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*function)(void *),
                   void *arg) {
    struct start *start = malloc(sizeof *start);
    *start = (struct start){function, arg};
    return real_create(thread, attr, start_interrupted, start);
}
/* Of main() only. A scan sends a signal to the scanned task's thread under a lock. */
long syscall(long number, ...) {
    long words[6];
    va_list rest;
    if (!real_syscall)
        begin();
    va_start(rest, number);
    for (int i = 0; i < 6; i++)
        words[i] = va_arg(rest, long);
    va_end(rest);
    if (number == SYS_futex && (words[1] & FUTEX_CMD_MASK) == FUTEX_WAKE && getpid() == gettid())
        interrupt(&test_wakes);
    if (number == SYS_rt_tgsigqueueinfo && getpid() == gettid())
        interrupt(&test_scans);
    return real_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
void test_read_stats(void) {
    struct sn_run_stats stats = SN_RUN_STATS_INIT();
    sn_run_stats(&stats);
    test_stats++;
}
static sn_semaphore gate = SN_SEMAPHORE_INIT(0);
_Atomic int test_waiting; /* how many wait at the gate */
void test_wait(void) {
    test_waiting++;
    sn_semaphore_acquire(&gate);
}
/* Removes all of them from the semaphore's list, under its lock. */
void test_release(void) {
    const int n = atomic_exchange(&test_waiting, 0);
    test_releases++;
    sn_semaphore_release(&gate, n);
}
static sn_task *_Atomic scanned;
static _Atomic int scans_end;
static int await_end(void *arg) {
    const struct timespec moment = {.tv_nsec = 1000000};
    while (!scans_end)
        real_syscall(SYS_nanosleep, &moment, NULL);
    return arg != NULL;
}
/* In code that blocks, so that each scan needs a signal. */
void test_be_scanned(void) {
    scanned = sn_self();
    sn_blocking(await_end, NULL);
}
static void look(const struct sn_scan *scan, void *arg) {
    (void)scan, (void)arg;
}
void test_scan(void) {
    while (test_scans < 3)
        if (scanned)
            sn_task_scan(scanned, look, NULL);
    scans_end = 1;
}
"""


def run(*words, **options):
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False,
                          **options)


class Forks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.library = Path(scratch.name) / "libforks.so"
        # On i386 sennit-run asks for this version (tools/run/library/real.c), and would pass over a
        # function without one.
        versions = Path(scratch.name) / "versions"
        versions.write_text("GLIBC_2.1 { pthread_create; };\n")
        done = run(os.environ.get("CC", "cc"), "-x", "c", "-", "-shared", "-fPIC", "-pthread",
                   "-o", cls.library, f"-I{SOURCE}/include", f"-Wl,--version-script={versions}",
                   *os.environ.get("CFLAGS", "").split(), input=LIBRARY)
        if done.returncode != 0:
            raise unittest.SkipTest(f"no library can be made: {done.stderr[-300:]}")

    def check(self, what, where, processors=2):
        plain = run(FORKS, what)
        self.assertEqual((plain.returncode, plain.stdout), (0, ""))
        done = run(BUILD / "tools/run/sennit-run", "--processors", str(processors), FORKS, what,
                   env={**os.environ, "LD_PRELOAD": str(self.library), "TEST_INTERRUPTS": where})
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertRegex(done.stderr, f"^interrupted: [1-9][0-9]* {where}\n$")

    def test_a_handler_may_fork_in_calls_of_the_runtime(self):
        self.check("descriptors", "calls")

    def test_a_handler_may_fork_while_main_wakes_a_thread(self):
        self.check("wakes", "wakes")

    def test_a_handler_may_fork_while_main_waits_for_a_thread(self):
        for launcher in [], [BUILD / "tools/run/sennit-run"]:
            done = run(*launcher, FORKS, "joins")
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_a_handler_may_fork_while_main_reads_statistics(self):
        self.check("stats", "stats")

    def test_a_handler_may_fork_while_a_task_reads_statistics(self):
        self.check("task-stats", "stats")

    def test_a_handler_may_fork_while_main_releases_a_semaphore_of_a_library(self):
        self.check("releases", "releases")

    def test_a_handler_may_fork_while_main_scans_a_task(self):
        self.check("scans", "scans")

    def test_a_handler_may_fork_while_threads_are_created_and_joined(self):
        self.check("threads", "locks")

    def test_a_child_of_a_handler_needs_no_processor(self):
        self.check("beside", "revoked", processors=1)

    def test_a_handler_may_fork_where_a_thread_of_the_runtime_begins(self):
        self.check("threads", "starts")

    def test_a_handler_may_fork_in_another_fork(self):
        self.check("nested", "locks")

    def test_a_handler_may_fork_on_a_thread_of_the_runtime_that_ends(self):
        self.check("ends", "ends")


if __name__ == "__main__":
    unittest.main()
