/* SPDX-License-Identifier: MIT */
/*
 * behaviour [--expect=vdso|syscall] [--short]
 *           [--never-back=READS | --follow=SECONDS | --million | --setns=SECONDS]:
 * what the clocks promise, checked on whatever machine it runs, against the kernel's system calls.
 *
 * It is one static program without a test framework, because it also runs in places without one:
 * under qemu-user, in a tiny system under qemu-system, in a sandbox, in a time namespace, and with
 * the vDSO taken away. It checks what the kernel's own vDSO self-tests, LTP's clock tests and
 * bionic's time tests check.
 *
 * --expect: fails if the clocks use another source. --short: makes fewer reads, for emulated
 * machines and machines where each read is a system call. --never-back: runs only the tests that
 * times never go back between two threads, with this many reads. --follow: runs only the comparison
 * of the counter with the kernel's clock, for this long. --million: only makes a million of each
 * call that the vDSO serves, so that system calls can be counted from outside. --setns: runs only
 * the entry into a time namespace that is this far ahead. The output ends with "N passed, N
 * failed", and the number of skipped tests if there are any. The skipped tests are those that
 * qemu-user cannot run.
 *
 * No test depends on how fast the machine is, or on how long it stalls: a clock is compared with
 * the kernel's before and after it is read. The wall clock may be set at any time (retake()).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <sennit/clock.h>
#include <sennit/vdso.h>

#include "arch/compiler.h"
#include "kernel_clock.h"

#define SECOND 1000000000LL

static int passed, failed, skipped, wrong_here, not_here;

#define SHORT_LOOPS 5000

/* How much the tests do. The command line can change it. */
static int loops = 100000;
/* Under the thread sanitizer, a read that is handed over takes 5 us on a loaded machine. */
static long many_reads = SN_TSAN ? 1000000 : 10000000;
static int64_t follow_ns = SECOND / 2;

#define CHECK(condition, ...)                                                  \
	do {                                                                   \
		if (!(condition)) {                                            \
			printf("%s:%d: %s: ", __FILE__, __LINE__, #condition); \
			printf(__VA_ARGS__);                                   \
			printf("\n");                                          \
			wrong_here++;                                          \
		}                                                              \
	} while (0)

static void run(const char *name, void (*function)(void))
{
	int64_t begin = sn_now();

	wrong_here = not_here = 0;
	function();
	printf("%s %s (%lld ms)\n",
	       wrong_here ? "FAILED"
	       : not_here ? "SKIPPED"
			  : "ok",
	       name, (long long)((sn_now() - begin) / 1000000));
	fflush(stdout);
	wrong_here ? failed++ : not_here ? skipped++ : passed++;
}

/* --- the kernel's own times, by system call
 * --------------------------------------------------------- */

static int kernel_getres(int id, struct sn_timespec *ts)
{
	struct {
		long sec, nsec;
	} narrow;

	if (syscall(SYS_clock_getres, id, &narrow))
		return -errno;
	ts->tv_sec = narrow.sec;
	ts->tv_nsec = narrow.nsec;
	return 0;
}

static int64_t ns(struct sn_timespec ts)
{
	return ts.tv_sec * SECOND + ts.tv_nsec;
}

static int64_t sennit_ns(int id)
{
	struct sn_timespec ts = {0, 0};

	if (sn_clock_gettime(id, &ts))
		abort();
	return ns(ts);
}

static const struct {
	int id;
	const char *name;
	int wall; /* whether the clock can be set */
} clocks[] = {
	{0, "REALTIME", 1},          {1, "MONOTONIC", 0},     {2, "PROCESS_CPUTIME_ID", 0},
	{3, "THREAD_CPUTIME_ID", 0}, {4, "MONOTONIC_RAW", 0}, {5, "REALTIME_COARSE", 1},
	{6, "MONOTONIC_COARSE", 0},  {7, "BOOTTIME", 0},      {8, "REALTIME_ALARM", 1},
	{9, "BOOTTIME_ALARM", 0},    {10, "SGI_CYCLE", 0},    {11, "TAI", 1},
};

#define CLOCKS (sizeof(clocks) / sizeof(clocks[0]))

/* --- wall times ---------------------------------------------------------------------------------
 */

/*
 * How far a clock that is read off the counter may be from the kernel's. Measured: less than 200
 * ns. If a virtual machine loses its CPU during a measurement, the error is larger for as long as
 * the piece lasts.
 */
#define COUNTER_BOUND 100000

/* The header's bound for the delay with which that clock shows that the wall clock was set. */
#define FOLLOW_NS 5000000

/*
 * A change of the wall clock before this call does not excuse failures after it. The counter's wall
 * clock shows a change late, so this waits until it does.
 */
static void retake_from_here(void)
{
	struct timespec pause = {0, FOLLOW_NS + 1000000};

	wall_clock_was_set();
	if (sn_clock_source(SN_CLOCK_CALL_WALLTIME) == SN_CLOCK_SOURCE_COUNTER)
		nanosleep(&pause, NULL);
}

/*
 * Whether a failed round is repeated: only if the wall clock was set, and not without a limit. All
 * rounds since the last retake share one excuse.
 */
static int retake(int *tries)
{
	if (!wall_clock_was_set() || ++*tries > RETAKES)
		return 0;
	retake_from_here();
	return 1;
}

/* --- each clock ---------------------------------------------------------------------------------
 */

static void every_id_agrees_with_the_kernel(void)
{
	retake_from_here();
	for (size_t i = 0; i < CLOCKS; i++) {
		for (int round = 0, tries = 0; round < 1000; round++) {
			struct sn_timespec here = {0, 0};
			int64_t before = 0, after = 0;
			int error = kernel_gettime(clocks[i].id, &before), right;

			if (error) {
				/* Alarm clocks need a real-time clock device. SGI's clock no longer
				 * exists. */
				CHECK(sn_clock_gettime(clocks[i].id, &here) == error, "%s: %d",
				      clocks[i].name, error);
				break;
			}
			error = sn_clock_gettime(clocks[i].id, &here);
			kernel_gettime(clocks[i].id, &after);
			right = before <= ns(here) && ns(here) <= after;
			if (!error && !right && clocks[i].wall && retake(&tries)) {
				round--;
				continue;
			}
			tries = 0;
			CHECK(error == 0, "%s: %d", clocks[i].name, error);
			CHECK(right, "%s: %lld, %lld, %lld", clocks[i].name, (long long)before,
			      (long long)ns(here), (long long)after);
			CHECK(here.tv_nsec >= 0 && here.tv_nsec < SECOND, "%s: %lld",
			      clocks[i].name, (long long)here.tv_nsec);
			if (wrong_here)
				return;
		}
	}
}

static void every_resolution_is_the_kernels(void)
{
	for (size_t i = 0; i < CLOCKS; i++) {
		struct sn_timespec kernels = {7, 7}, here = {7, 7};
		int expected = kernel_getres(clocks[i].id, &kernels);
		int error = sn_clock_getres(clocks[i].id, &here);

		CHECK(error == expected, "%s: %d, %d", clocks[i].name, error, expected);
		CHECK(expected || ns(here) == ns(kernels), "%s: %lld, %lld", clocks[i].name,
		      (long long)ns(here), (long long)ns(kernels));
		CHECK(sn_clock_getres(clocks[i].id, NULL) == expected, "%s", clocks[i].name);
	}
}

static void unknown_ids_are_refused(void)
{
	static const int ids[] = {12, 15, 16, 17,   31,      32, 33,
				  63, 64, 99, 1000, INT_MAX, -1, INT_MIN};

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		struct sn_timespec kernels = {0, 0}, here = {-5, -5};
		int64_t unused;
		int expected = kernel_gettime(ids[i], &unused);

		/* Some negative ids are the CPU clocks of processes and threads, and exist. */
		CHECK(sn_clock_gettime(ids[i], &here) == expected, "id %d: %d", ids[i], expected);
		if (ids[i] > 0)
			CHECK(expected && here.tv_sec == -5, "id %d: written to", ids[i]);
		expected = kernel_getres(ids[i], &kernels);
		CHECK(sn_clock_getres(ids[i], &here) == expected, "id %d: %d", ids[i], expected);
		CHECK(sn_clock_getres(ids[i], NULL) == expected, "id %d: %d", ids[i], expected);
		/* 16 to 23 are Linux 6.17's auxiliary clocks. */
		if (ids[i] > 0 && (ids[i] < 16 || ids[i] > 23)) {
			CHECK(sn_clock_gettime(ids[i], &here) == -EINVAL, "id %d", ids[i]);
			CHECK(sn_clock_getres(ids[i], &here) == -EINVAL, "id %d", ids[i]);
		}
	}
	CHECK(sn_clock_source((enum sn_clock_call)SN_CLOCK_CALLS) == -EINVAL, "calls");
	CHECK(sn_clock_source((enum sn_clock_call) - 1) == -EINVAL, "-1");
}

static void errno_is_left_alone(void)
{
	struct sn_timespec ts;
	char bytes[8];

	errno = ERANGE;
	sn_now(), sn_walltime(), sn_time(), sn_time_exact(), sn_ticks(), sn_ticks_now();
	sn_clock_gettime(99, &ts), sn_clock_gettime(2, &ts), sn_clock_getres(99, &ts);
	sn_getcpu(NULL, NULL), sn_gettimeofday(NULL, NULL), (void)!sn_getrandom(bytes, 8, ~0u);
	for (int i = -1; i <= SN_CLOCK_CALLS; i++)
		sn_clock_source((enum sn_clock_call)i);
	CHECK(errno == ERANGE, "%d", errno);
}

static void cpu_clock_ids_work(void)
{
	clockid_t id;
	struct timespec theirs;
	struct sn_timespec ours, later;

	CHECK(clock_getcpuclockid(0, &id) == 0, "libc");
	CHECK(clock_gettime(id, &theirs) == 0, "libc");
	CHECK(sn_clock_gettime(id, &ours) == 0, "ours");
	CHECK(sn_clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &later) == 0, "ours");
	CHECK(theirs.tv_sec * SECOND + theirs.tv_nsec <= ns(ours) && ns(ours) <= ns(later),
	      "%lld, %lld", (long long)ns(ours), (long long)ns(later));
}

/*
 * How far a coarse clock lags is up to the kernel: a tick, and more if the machine stalled.
 */
static void coarse_is_the_kernels_and_never_leads(void)
{
	for (int i = 0; i < loops; i++) {
		int64_t before = kernel_ns(CLOCK_MONOTONIC_COARSE);
		int64_t coarse = sennit_ns(CLOCK_MONOTONIC_COARSE);
		int64_t after = kernel_ns(CLOCK_MONOTONIC_COARSE);
		int64_t fine = sennit_ns(CLOCK_MONOTONIC);

		CHECK(before <= coarse && coarse <= after, "%lld, %lld, %lld", (long long)before,
		      (long long)coarse, (long long)after);
		CHECK(coarse <= fine, "ahead by %lld", (long long)(coarse - fine));
		if (wrong_here)
			return;
	}
}

static void seconds_are_the_kernels_and_never_lead(void)
{
	int64_t last = 0, end = sn_now() + SECOND + SECOND / 10;
	int tries = 0;

	retake_from_here();
	/* For more than a second, so that the second changes in between. */
	do {
		int64_t before = kernel_ns(CLOCK_REALTIME_COARSE) / SECOND, seconds = sn_time();
		int64_t after = kernel_ns(CLOCK_REALTIME_COARSE) / SECOND, exact = sn_time_exact();
		int follows = before <= seconds && seconds <= after && seconds >= last;

		last = seconds;
		if ((!follows || seconds > exact) && retake(&tries)) {
			last = 0;
			continue;
		}
		tries = 0;
		CHECK(follows, "%lld, %lld, %lld", (long long)before, (long long)seconds,
		      (long long)after);
		CHECK(seconds <= exact, "leads: %lld, %lld", (long long)seconds, (long long)exact);
	} while (sn_now() < end && !wrong_here);
}

static void nanoseconds_are_the_kernels(void)
{
	for (int i = 0; i < loops; i++) {
		int64_t before = kernel_ns(CLOCK_MONOTONIC), now = sn_now();
		int64_t after = kernel_ns(CLOCK_MONOTONIC);

		CHECK(before <= now && now <= after, "%lld, %lld, %lld", (long long)before,
		      (long long)now, (long long)after);
		if (wrong_here)
			return;
	}
}

static void walltime_is_the_kernels(void)
{
	int64_t slack = sn_clock_source(SN_CLOCK_CALL_WALLTIME) == SN_CLOCK_SOURCE_COUNTER
				? COUNTER_BOUND
				: 0;

	retake_from_here();
	for (int i = 0, tries = 0; i < loops; i++) {
		int64_t before = kernel_ns(CLOCK_REALTIME), now = sn_walltime();
		int64_t after = kernel_ns(CLOCK_REALTIME);
		int right = before - slack <= now && now <= after + slack;

		if (!right && retake(&tries)) {
			i--;
			continue;
		}
		tries = 0;
		CHECK(right, "%lld, %lld, %lld", (long long)before, (long long)now,
		      (long long)after);
		if (wrong_here)
			return;
	}
}

static void gettimeofday_is_the_kernels(void)
{
	struct sn_timezone zone = {1, 2};
	struct timezone theirs = {3, 4};
	struct sn_timeval tv;

	retake_from_here();
	for (int i = 0, tries = 0; i < loops / 10; i++) {
		int64_t before = kernel_ns(CLOCK_REALTIME) / 1000, after;
		int right;

		CHECK(sn_gettimeofday(&tv, i % 2 ? NULL : &zone) == 0, "failed");
		after = kernel_ns(CLOCK_REALTIME) / 1000;
		right = before <= tv.tv_sec * 1000000 + tv.tv_usec &&
			tv.tv_sec * 1000000 + tv.tv_usec <= after;
		if (!right && retake(&tries)) {
			i--;
			continue;
		}
		tries = 0;
		CHECK(tv.tv_usec >= 0 && tv.tv_usec < 1000000, "%lld", (long long)tv.tv_usec);
		CHECK(right, "%lld.%06lld", (long long)tv.tv_sec, (long long)tv.tv_usec);
		if (wrong_here)
			return;
	}
	CHECK(sn_gettimeofday(NULL, NULL) == 0, "both NULL");
	CHECK(sn_gettimeofday(NULL, &zone) == 0, "zone alone");
	syscall(SYS_gettimeofday, NULL, &theirs);
	CHECK(zone.tz_minuteswest == theirs.tz_minuteswest && zone.tz_dsttime == theirs.tz_dsttime,
	      "%d %d", zone.tz_minuteswest, zone.tz_dsttime);
}

static void the_cpu_is_the_one_we_are_bound_to(void)
{
	cpu_set_t old, one;

	CHECK(sched_getaffinity(0, sizeof(old), &old) == 0, "affinity");
	for (int i = 0; i < CPU_SETSIZE; i++) {
		unsigned int cpu = ~0u, node = ~0u, kernels_cpu, kernels_node;

		if (!CPU_ISSET(i, &old))
			continue;
		CPU_ZERO(&one);
		CPU_SET(i, &one);
		if (sched_setaffinity(0, sizeof(one), &one))
			continue;
		CHECK(sn_getcpu(&cpu, &node) == 0, "failed");
		syscall(SYS_getcpu, &kernels_cpu, &kernels_node, NULL);
		CHECK(cpu == (unsigned int)i || cpu == kernels_cpu, "%u on %d", cpu, i);
		CHECK(node == kernels_node, "node %u, %u", node, kernels_node);
		CHECK(sn_getcpu(NULL, NULL) == 0 && sn_getcpu(&cpu, NULL) == 0 &&
			      sn_getcpu(NULL, &node) == 0,
		      "NULL");
	}
	sched_setaffinity(0, sizeof(old), &old);
}

/* --- never back ---------------------------------------------------------------------------------
 */

/* The last value that each thread has read, for the other one. Each writes to a cache line of its
 * own. */
struct relay {
	int64_t (*read)(void);
	long rounds;
	struct {
		_Alignas(SN_CACHE_LINE) _Atomic int64_t last;
	} of[2];
	_Atomic long wrong;
};

struct half {
	struct relay *relay;
	int me;
	pthread_t thread;
};

/*
 * Takes the other thread's last value, reads the clock and compares: the value that was handed over
 * was read earlier. Acquire and release order the hand-over.
 */
static void *hand_over(void *arg)
{
	struct half *half = arg;
	struct relay *relay = half->relay;
	_Atomic int64_t *mine = &relay->of[half->me].last, *others = &relay->of[!half->me].last;
	int64_t own = 0;

	for (long i = 0; i < relay->rounds; i++) {
		int64_t last = atomic_load_explicit(others, memory_order_acquire);
		int64_t now = relay->read();

		if (now < last || now < own)
			atomic_fetch_add(&relay->wrong, 1);
		atomic_store_explicit(mine, now, memory_order_release);
		own = now;
	}
	return NULL;
}

static void never_back_between_threads(int64_t (*read)(void), long reads)
{
	struct relay relay = {.read = read, .rounds = reads / 2};
	struct half halves[2] = {{.relay = &relay, .me = 0}, {.relay = &relay, .me = 1}};

	for (int i = 0; i < 2; i++)
		if (pthread_create(&halves[i].thread, NULL, hand_over, &halves[i]))
			abort();
	for (int i = 0; i < 2; i++)
		pthread_join(halves[i].thread, NULL);
	CHECK(relay.wrong == 0, "%ld of %ld", relay.wrong, reads);
	printf("  %ld backwards in %ld reads\n", relay.wrong, reads);
}

static void now_never_goes_back_between_threads(void)
{
	never_back_between_threads(sn_now, many_reads);
}

static void ticks_never_go_back_between_threads(void)
{
	never_back_between_threads(sn_ticks_now, many_reads);
}

static void now_never_goes_back_between_processes(void)
{
	struct {
		_Alignas(8) _Atomic int64_t last;
		_Atomic int wrong;
	} *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status = 0;

	for (int i = 0; i < 20; i++) {
		pid_t child;

		shared->last = sn_now();
		child = fork();
		if (child == 0) {
			if (sn_now() < shared->last)
				shared->wrong++;
			shared->last = sn_now();
			_exit(0);
		}
		waitpid(child, &status, 0);
		CHECK(status == 0, "%d", status);
		CHECK(sn_now() >= shared->last && !shared->wrong, "went back");
	}
	munmap(shared, 4096);
}

/* --- the counter --------------------------------------------------------------------------------
 */

static void ticks_follow_the_kernel(void)
{
	int64_t end = sn_now() + follow_ns, last = 0, ahead = 0, behind = 0;
	long reads = 0;

	for (;;) {
		int64_t before = sn_now(), now = sn_ticks_now(), after = sn_now();

		CHECK(now >= last, "back by %lld", (long long)(last - now));
		last = now;
		if (now - after > ahead)
			ahead = now - after;
		if (before - now > behind)
			behind = before - now;
		reads++;
		if (after > end)
			break;
	}
	CHECK(ahead <= COUNTER_BOUND && behind <= COUNTER_BOUND, "%lld, %lld", (long long)ahead,
	      (long long)behind);
	printf("  at most %lld ns ahead of sn_now() and %lld behind, in %ld reads\n",
	       (long long)ahead, (long long)behind, reads);
}

static void ticks_stay_right_across_pauses(void)
{
	static const long pauses[] = {1, 3, 40, 59, 62, 63, 80, 200, 700};

	for (size_t i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++) {
		struct timespec pause = {0, pauses[i] * 1000000};
		int64_t before, now, after, last = sn_ticks_now();

		nanosleep(&pause, NULL);
		before = sn_now();
		now = sn_ticks_now();
		after = sn_now();
		CHECK(now >= last && now >= before - COUNTER_BOUND && now <= after + COUNTER_BOUND,
		      "after %ld ms: %lld, %lld, %lld", pauses[i], (long long)before,
		      (long long)now, (long long)after);
	}
}

static void ticks_are_right_after_fork(void)
{
	int64_t last = sn_ticks_now();
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		int wrong = 0;

		for (int64_t end = sn_now() + SECOND / 10; sn_now() < end;) {
			int64_t before = sn_now(), now = sn_ticks_now(), after = sn_now();

			wrong |= now < before - COUNTER_BOUND || now > after + COUNTER_BOUND ||
				 now < last - COUNTER_BOUND;
		}
		_exit(wrong);
	}
	waitpid(child, &status, 0);
	CHECK(status == 0, "%d", status);
}

static void the_counter_counts(void)
{
	uint64_t last = sn_ticks(), first = last;

	for (int i = 0; i < 10000; i++) {
		uint64_t now = sn_ticks();

		CHECK(now >= last, "%llu after %llu", (unsigned long long)now,
		      (unsigned long long)last);
		last = now;
	}
	CHECK(last > first, "stands still");
}

/* --- random bytes -------------------------------------------------------------------------------
 */

static void random_bytes_differ(void)
{
	unsigned char a[256] = {0}, b[256] = {0};
	int counts[256] = {0};

	CHECK(sn_getrandom(a, sizeof(a), 0) == 256 && sn_getrandom(b, sizeof(b), 0) == 256, "size");
	CHECK(memcmp(a, b, sizeof(a)) != 0, "the same twice");
	CHECK(sn_getrandom(a, 0, 0) == 0, "none");
	CHECK(sn_getrandom(a, 8, ~0u) == -EINVAL, "flags");
	for (int i = 0; i < 4096; i++) {
		CHECK(sn_getrandom(a, 16, 0) == 16, "16");
		for (int k = 0; k < 16; k++)
			counts[a[k]]++;
	}
	/* 65536 bytes: 256 of each on average, with a standard deviation of 16. */
	for (int i = 0; i < 256; i++)
		CHECK(counts[i] > 256 - 128 && counts[i] < 256 + 128, "%d: %d", i, counts[i]);
}

static void random_bytes_differ_after_fork(void)
{
	unsigned char mine[32], theirs[32];
	int ends[2], status;
	pid_t child;

	/* Leaves unused bytes of a batch in the state that the child inherits. */
	CHECK(sn_getrandom(mine, 5, 0) == 5, "size");
	if (pipe(ends))
		abort();
	child = fork();
	if (child == 0) {
		(void)!sn_getrandom(mine, sizeof(mine), 0);
		_exit(write(ends[1], mine, sizeof(mine)) != (ssize_t)sizeof(mine));
	}
	(void)!sn_getrandom(mine, sizeof(mine), 0);
	CHECK(read(ends[0], theirs, sizeof(theirs)) == (ssize_t)sizeof(theirs), "pipe");
	waitpid(child, &status, 0);
	CHECK(memcmp(mine, theirs, sizeof(mine)) != 0, "the same in both");
	close(ends[0]);
	close(ends[1]);
}

static void *take_random(void *arg)
{
	_Atomic int *wrong = arg;
	uint64_t last = 0, now;

	for (int i = 0; i < loops / 5; i++) {
		if (sn_getrandom(&now, sizeof(now), 0) != (ssize_t)sizeof(now) || now == last)
			++*wrong;
		last = now;
	}
	return NULL;
}

static void random_bytes_from_many_threads(void)
{
	pthread_t threads[8];
	_Atomic int wrong = 0;

	for (int i = 0; i < 8; i++)
		if (pthread_create(&threads[i], NULL, take_random, &wrong))
			abort();
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	CHECK(wrong == 0, "%d", wrong);
}

/* --- small stacks and signals -------------------------------------------------------------------
 */

static void call_everything(void)
{
	struct sn_timespec ts;
	struct sn_timeval tv;
	unsigned int cpu;
	char bytes[32];

	sn_now(), sn_walltime(), sn_time(), sn_time_exact(), sn_ticks(), sn_ticks_now();
	for (int id = 0; id < 12; id++)
		sn_clock_gettime(id, &ts), sn_clock_getres(id, &ts);
	sn_gettimeofday(&tv, NULL), sn_getcpu(&cpu, NULL);
	(void)!sn_getrandom(bytes, sizeof(bytes), 0);
}

/* Sanitizers need stack themselves, and do not know this one. */
#if !SN_ASAN && !SN_TSAN && SENNIT_HAS_GETCONTEXT /* and makecontext() */
#	define STACK_BYTES (16 * 1024)
/* The bound for optimised code. Without optimisation gcc keeps all variables on the stack. */
#	ifdef __OPTIMIZE__
#		define STACK_BOUND 1024
#	else
#		define STACK_BOUND 2048
#	endif
#	define PAINT 0xa5

/* Shared with a child, in which the counter's clock has not been measured yet. */
static struct {
	size_t used;
	unsigned char bytes[STACK_BYTES];
} * small_stack;

static ucontext_t main_context, small_context;

/*
 * Calls everything, again and again. In a new process the first calls measure the counter, those 20
 * ms later make its first line, and then there is a new piece every 4 ms. After a pause there is no
 * piece to append to.
 */
static void on_small_stack(void)
{
	size_t depth = (size_t)((unsigned char *)__builtin_frame_address(0) - small_stack->bytes);
	size_t clean = 0;

	/* Paints everything below this frame, except a part that the loop may use. */
	for (unsigned char *p = small_stack->bytes; p < small_stack->bytes + depth - 256; p++)
		*(volatile unsigned char *)p = PAINT;
	for (int round = 0; round < 3; round++) {
		for (int64_t end = sn_now() + SECOND / 25; sn_now() < end;)
			call_everything();
		swapcontext(&small_context, &main_context);
	}
	while (clean < depth && small_stack->bytes[clean] == PAINT)
		clean++;
	small_stack->used = depth - clean;
}

static void use_small_stack(void)
{
	static struct timespec pause = {0, SECOND / 100}; /* 10 ms */

	getcontext(&small_context);
	small_context.uc_stack.ss_sp = small_stack->bytes;
	small_context.uc_stack.ss_size = STACK_BYTES;
	small_context.uc_link = &main_context;
	makecontext(&small_context, on_small_stack, 0);
	while (!small_stack->used) {
		swapcontext(&main_context, &small_context);
		nanosleep(&pause, NULL);
	}
}

static void stack_use_is_bounded(void)
{
	int status = -1;
	pid_t child;

	small_stack = mmap(NULL, sizeof(*small_stack), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		use_small_stack();
		_exit(0);
	}
	waitpid(child, &status, 0);
	CHECK(status == 0 && small_stack->used, "%d", status);
	CHECK(small_stack->used <= STACK_BOUND, "%zu bytes", small_stack->used);
	printf("  %zu bytes of stack for all calls of the kernel's and ours\n", small_stack->used);
	munmap(small_stack, sizeof(*small_stack));
}
#endif

static struct sn_vdso image;
static int has_image;
static volatile sig_atomic_t signals, signals_inside, signal_wrong;
static _Atomic int stop_signals;
static volatile int64_t last_in_handler;

static uintptr_t program_counter(const ucontext_t *context)
{
#if defined(__x86_64__)
	return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__i386__)
	return (uintptr_t)context->uc_mcontext.gregs[REG_EIP];
#elif defined(__aarch64__)
	return (uintptr_t)context->uc_mcontext.pc;
#elif defined(__riscv)
	return (uintptr_t)context->uc_mcontext.__gregs[REG_PC];
#elif !defined(__arm__)
	(void)context;
	return 0;
#else
	return (uintptr_t)context->uc_mcontext.arm_pc;
#endif
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	uintptr_t pc = program_counter(context);
	int64_t before, now, after;

	(void)number, (void)info;
	signals = signals + 1;
	if (has_image && pc - (uintptr_t)image.image < image.size)
		signals_inside = signals_inside + 1;
	before = sn_now();
	call_everything();
	now = sn_ticks_now();
	after = sn_now();
	if (after < before || now < last_in_handler || now > after + COUNTER_BOUND)
		signal_wrong = signal_wrong + 1;
	last_in_handler = now;
}

static void *send_signals(void *arg)
{
	pthread_t *target = arg;

	while (!stop_signals) {
		struct timespec pause = {0, 20000};

		pthread_kill(*target, SIGUSR1);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static void signals_may_land_in_the_vdso(void)
{
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
	pthread_t self = pthread_self(), sender;
	int64_t last = 0, last_ticks = 0;
	unsigned long results = 0;

	/* TSan holds signals back until the program calls an intercepted function. */
	has_image = !SN_TSAN && sn_vdso_self(&image) == 0;
	sigaction(SIGUSR1, &action, NULL);
	stop_signals = 0;
	if (pthread_create(&sender, NULL, send_signals, &self))
		abort();
	/* Continues until enough signals have landed, however busy the machine is. */
	while (signals < loops / 50 || (has_image && signals_inside < loops / 1000)) {
		for (int i = 0; i < 100; i++) {
			int64_t now = sn_now(), ticks = sn_ticks_now();
			char bytes[24];

			CHECK(now >= last, "back by %lld", (long long)(last - now));
			CHECK(ticks >= last_ticks, "ticks back by %lld",
			      (long long)(last_ticks - ticks));
			last = now;
			last_ticks = ticks;
			results += (unsigned long)sn_walltime() + (unsigned long)sn_time();
			results += (unsigned long)sn_time_exact();
			/* In most rounds this is called only where it makes no system call. */
			if (i == 0 ||
			    sn_clock_source(SN_CLOCK_CALL_GETRANDOM) == SN_CLOCK_SOURCE_VDSO)
				(void)!sn_getrandom(bytes, sizeof(bytes), 0);
		}
	}
	stop_signals = 1;
	pthread_join(sender, NULL);
	signal(SIGUSR1, SIG_IGN);
	CHECK(results != 0, "no results");
	CHECK(signal_wrong == 0, "%d", (int)signal_wrong);
	printf("  %d signals, %d of them inside the vDSO\n", (int)signals, (int)signals_inside);
}

/* --- the source ---------------------------------------------------------------------------------
 */

static const char *const call_names[SN_CLOCK_CALLS] = {
	"sn_now",           "sn_walltime",     "sn_time",         "sn_time_exact",
	"sn_clock_gettime", "sn_clock_getres", "sn_gettimeofday", "sn_getcpu",
	"sn_getrandom",     "sn_ticks",        "sn_ticks_now",
};

static int expected_source;

static void the_source_is_the_expected_one(void)
{
	/* The other calls are not in every kernel's image. */
	static const enum sn_clock_call served[] = {
		SN_CLOCK_CALL_NOW,     SN_CLOCK_CALL_WALLTIME,     SN_CLOCK_CALL_TIME,
		SN_CLOCK_CALL_GETTIME, SN_CLOCK_CALL_GETTIMEOFDAY, SN_CLOCK_CALL_TIME_EXACT,
	};

	for (int i = 0; i < SN_CLOCK_CALLS; i++)
		printf("  %-18s %s\n", call_names[i],
		       sn_clock_source_name(sn_clock_source((enum sn_clock_call)i)));
	for (size_t i = 0; i < sizeof(served) / sizeof(served[0]); i++) {
		int source = sn_clock_source(served[i]);

		if (expected_source == SN_CLOCK_SOURCE_VDSO)
			CHECK(source >= SN_CLOCK_SOURCE_VDSO, "%s", call_names[served[i]]);
		else if (expected_source)
			CHECK(source == expected_source, "%s", call_names[served[i]]);
	}
	if (expected_source == SN_CLOCK_SOURCE_SYSCALL)
		CHECK(sn_clock_source(SN_CLOCK_CALL_TICKS_NOW) == SN_CLOCK_SOURCE_SYSCALL, "ticks");
}

static volatile int64_t sink;

/* A million of each call for which the image has a function that makes no system call. */
static void do_a_million(long times)
{
	static const int served[] = {0, 1, 4, 5, 6, 7, 11};
	struct sn_timespec ts;
	struct sn_timeval tv;
	unsigned int cpu;

	for (long i = 0; i < times; i++)
		sink = sn_now();
	for (long i = 0; i < times; i++)
		sink = sn_walltime();
	for (long i = 0; i < times; i++)
		sink = sn_time();
	for (long i = 0; i < times; i++)
		sink = sn_time_exact();
	for (long i = 0; i < times; i++)
		sn_gettimeofday(&tv, NULL);
	for (long i = 0; i < times; i++)
		sink = sn_ticks_now();
	for (size_t k = 0; k < sizeof(served) / sizeof(served[0]); k++)
		for (long i = 0; i < times; i++)
			if (sn_clock_gettime(served[k], &ts))
				abort();
	if (sn_clock_source(SN_CLOCK_CALL_GETRES) == SN_CLOCK_SOURCE_VDSO)
		for (size_t k = 0; k < sizeof(served) / sizeof(served[0]); k++)
			for (long i = 0; i < times; i++)
				if (sn_clock_getres(served[k], &ts))
					abort();
	if (sn_clock_source(SN_CLOCK_CALL_GETCPU) == SN_CLOCK_SOURCE_VDSO)
		for (long i = 0; i < times; i++)
			sn_getcpu(&cpu, NULL);
}

#define NO_SECCOMP 77

#define MOST_FORBIDDEN 16

static int forbid(const unsigned int *numbers, int count, unsigned int action)
{
	struct sock_filter code[1 + 2 * MOST_FORBIDDEN + 1];
	struct sock_fprog program = {.len = 0, .filter = code};

	code[program.len++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
							   offsetof(struct seccomp_data, nr));
	for (int i = 0; i < count; i++) {
		code[program.len++] =
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, numbers[i], 0, 1);
		code[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
	}
	code[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? -errno : 0;
}

/* From here on, a system call that reads the time or opens a file kills the process. */
static int forbid_clock_calls(unsigned int action)
{
	static const unsigned int numbers[] = {
		SYS_clock_gettime,
		SYS_clock_getres,
		SYS_gettimeofday,
		SYS_getcpu,
		SYS_openat,
#ifdef SYS_time
		SYS_time,
#endif
#ifdef SYS_clock_gettime64
		SYS_clock_gettime64,
		SYS_clock_getres_time64,
#endif
	};

	return forbid(numbers, sizeof(numbers) / sizeof(numbers[0]), action);
}

static void no_system_call_is_made_in_a_sandbox(void)
{
	int status = -1, ends[2], right, tries = 0;
	struct {
		int64_t wall, now, ticks, seconds;
	} seen = {0, 0, 0, 0};
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends))
		abort();
	retake_from_here();
	fflush(stdout);
	child = fork();
	if (child == 0) {
		char request;

		close(ends[0]);
		if (forbid_clock_calls(SECCOMP_RET_KILL_PROCESS))
			_exit(NO_SECCOMP);
		do_a_million(loops);
		while (read(ends[1], &request, 1) == 1) {
			seen.wall = sn_walltime();
			seen.now = sn_now();
			seen.ticks = sn_ticks_now();
			seen.seconds = sn_time();
			if (write(ends[1], &seen, sizeof(seen)) != (ssize_t)sizeof(seen))
				break;
		}
		_exit(0);
	}
	close(ends[1]);
	do {
		int64_t wall = kernel_ns(CLOCK_REALTIME), now = kernel_ns(CLOCK_MONOTONIC);
		int64_t seconds = kernel_ns(CLOCK_REALTIME_COARSE) / SECOND;

		if (send(ends[0], "", 1, MSG_NOSIGNAL) != 1 ||
		    read(ends[0], &seen, sizeof(seen)) != (ssize_t)sizeof(seen)) {
			CHECK(0, "no answer");
			break;
		}
		right = seen.wall >= wall - COUNTER_BOUND &&
			seen.wall <= kernel_ns(CLOCK_REALTIME) + COUNTER_BOUND &&
			seen.seconds >= seconds &&
			seen.seconds <= kernel_ns(CLOCK_REALTIME_COARSE) / SECOND;
		CHECK(seen.now >= now && seen.now <= kernel_ns(CLOCK_MONOTONIC), "now");
		CHECK(seen.ticks >= now - COUNTER_BOUND &&
			      seen.ticks <= kernel_ns(CLOCK_MONOTONIC) + COUNTER_BOUND,
		      "ticks");
		if (!right && retake(&tries))
			continue;
		CHECK(right, "wall time %lld, seconds %lld", (long long)seen.wall,
		      (long long)seen.seconds);
		break;
	} while (!wrong_here);
	close(ends[0]);
	waitpid(child, &status, 0);
	CHECK(status == 0, "%s %d", WIFSIGNALED(status) ? "killed by" : "status",
	      WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* The first call comes after a filter that forbids what a preparation would need. */
static void random_bytes_need_no_preparation_in_a_sandbox(void)
{
	static const unsigned int numbers[] = {
		SYS_openat, SYS_mprotect, SYS_madvise, SYS_munmap,
#ifdef SYS_mmap
		SYS_mmap,
#endif
#ifdef SYS_mmap2
		SYS_mmap2,
#endif
	};
	int status = -1;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		char bytes[16];

		if (forbid(numbers, sizeof(numbers) / sizeof(numbers[0]), SECCOMP_RET_KILL_PROCESS))
			_exit(NO_SECCOMP);
		_exit(sn_getrandom(bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes) ? 0 : 1);
	}
	waitpid(child, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_SECCOMP)
		return;
	CHECK(status == 0, "%s %d", WIFSIGNALED(status) ? "killed by" : "status",
	      WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void an_error_is_returned_without_a_source(void)
{
	int status = -1;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		struct sn_timespec ts;

		if (forbid_clock_calls(SECCOMP_RET_ERRNO | EPERM))
			_exit(NO_SECCOMP);
		_exit(sn_now() == -EPERM && sn_walltime() == -EPERM && sn_time() == -EPERM &&
				      sn_time_exact() == -EPERM &&
				      sn_clock_gettime(1, &ts) == -EPERM &&
				      sn_clock_getres(1, &ts) == -EPERM &&
				      sn_ticks_now() == -EPERM && sn_getcpu(NULL, NULL) == -EPERM
			      ? 0
			      : 1);
	}
	waitpid(child, &status, 0);
	not_here = status == NO_SECCOMP << 8; /* qemu-user has none */
	CHECK(not_here || status == 0, "%d", status);
}

/* --- bad pointers -------------------------------------------------------------------------------
 */

static void bad_pointers_behave_as_in_libc(void)
{
	/* A page that must not be accessed. */
	void *bad = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int served = sn_clock_source(SN_CLOCK_CALL_GETTIME) == SN_CLOCK_SOURCE_VDSO;
	int status = -1;
	pid_t child;

	CHECK(served || sn_clock_gettime(CLOCK_MONOTONIC, bad) == -EFAULT, "system call");
	fflush(stdout);
	child = fork();
	if (child == 0) {
		struct rlimit none = {0, 0};

		setrlimit(RLIMIT_CORE, &none);
		signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would print a long report */
		_exit(sn_clock_gettime(CLOCK_MONOTONIC, bad) == -EFAULT ? 3 : 4);
	}
	waitpid(child, &status, 0);
	if (served)
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "%d", status);
	else
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3, "%d", status);
	munmap(bad, 4096);
}

/*
 * Tested with a clock that needs a system call; also with a pointer that is bad for only half of a
 * structure, and with a kernel or a sandbox that does not know the calls for 64-bit time.
 */
static void bad_pointers_are_errors_of_system_calls(void)
{
	char *good = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int checks_pointers;

	mprotect(good + 4096, 4096, PROT_NONE);
	/* qemu-user's clock_getres() succeeds even where it could not write the result. */
	checks_pointers = syscall(SYS_clock_getres, CLOCK_PROCESS_CPUTIME_ID, good + 4096) != 0;
	if (!checks_pointers)
		printf("  without clock_getres(), whose pointer this kernel does not check\n");
	fflush(stdout);
	for (int old = 0; old < 2; old++) {
		int status = -1;
		pid_t child = fork();

		if (child == 0) {
			static const int ids[] = {CLOCK_PROCESS_CPUTIME_ID, 2000, -1};
			int wrong = 0;

			signal(SIGSEGV, SIG_DFL);
#ifdef SYS_clock_gettime64
			static const unsigned int numbers[] = {SYS_clock_gettime64,
							       SYS_clock_getres_time64};

			if (old && forbid(numbers, 2, SECCOMP_RET_ERRNO | ENOSYS))
				_exit(NO_SECCOMP);
#endif
			for (int i = 0; i < 3; i++) {
				struct sn_timespec ts = {-7, -7}, *half = (void *)(good + 4088);
				struct sn_timespec *bad = (void *)(good + 4096);
				int error = i == 0 ? -EFAULT : -EINVAL;

				wrong |= sn_clock_gettime(ids[i], bad) != error;
				wrong |= (sn_clock_gettime(ids[i], half) != error) << 2;
				if (checks_pointers) {
					wrong |= (sn_clock_getres(ids[i], bad) != error) << 1;
					wrong |= (sn_clock_getres(ids[i], half) != error) << 3;
				}
				error = i == 0 ? 0 : -EINVAL;
				wrong |= (sn_clock_getres(ids[i], NULL) != error) << 4;
				wrong |= (sn_clock_getres(ids[i], &ts) != error) << 5;
				wrong |= (ts.tv_sec != (i ? -7 : 0)) << 6;
			}
			_exit(wrong);
		}
		waitpid(child, &status, 0);
		if (status == NO_SECCOMP << 8)
			continue; /* qemu-user has none */
		CHECK(status == 0, "%s %#x", WIFSIGNALED(status) ? "killed by" : "status",
		      WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	}
	munmap(good, 8192);
}

/* --- time namespaces ----------------------------------------------------------------------------
 */

#ifndef CLONE_NEWTIME
#	define CLONE_NEWTIME 0x80
#endif

/* The header's bound for the delay with which the counter's clock follows. */
#define NAMESPACE_BOUND 10000000

static int64_t namespace_offset;

/* The offset is set while the namespace is empty. After setns() the process has it. */
static void ticks_follow_into_a_time_namespace(void)
{
	int64_t began, entered, before, now, after, last = 0, worst = 0;
	int file, space, tries = 0;
	char line[64];

	ticks_follow_the_kernel();
	if (unshare(CLONE_NEWTIME)) {
		printf("unshare: %s\n", strerror(errno));
		exit(77);
	}
	file = open("/proc/self/timens_offsets", O_WRONLY);
	snprintf(line, sizeof(line), "monotonic %lld 0\n", (long long)namespace_offset);
	CHECK(write(file, line, strlen(line)) == (ssize_t)strlen(line), "%s", strerror(errno));
	close(file);
	space = open("/proc/self/ns/time_for_children", O_RDONLY);
	retake_from_here();
	sn_ticks_now();
	/* The namespace does not change this clock. */
	began = kernel_ns(CLOCK_BOOTTIME);
	before = sn_now();
	CHECK(setns(space, CLONE_NEWTIME) == 0, "%s", strerror(errno));
	after = entered = sn_now();
	before += namespace_offset * SECOND;
	CHECK(entered >= before && entered - before <= kernel_ns(CLOCK_BOOTTIME) - began,
	      "%lld too far", (long long)(entered - before));
	close(space);
	wall_clock_was_set(); /* because its distance to the monotonic clock has changed */

	do {
		int64_t wall_before = kernel_ns(CLOCK_REALTIME), wall = sn_walltime();
		int64_t wall_after = kernel_ns(CLOCK_REALTIME);
		int right =
			wall >= wall_before - COUNTER_BOUND && wall <= wall_after + COUNTER_BOUND;

		if (!right && retake(&tries))
			continue;
		tries = 0;
		CHECK(right, "wall time off by %lld", (long long)(wall - wall_before));
		before = sn_now();
		now = sn_ticks_now();
		after = sn_now();
		if (before - entered < NAMESPACE_BOUND)
			continue;
		CHECK(now >= last, "back by %lld", (long long)(last - now));
		last = now;
		if (before - now > worst)
			worst = before - now;
		if (now - after > worst)
			worst = now - after;
	} while (after - entered < SECOND / 2 && !wrong_here);
	CHECK(worst <= COUNTER_BOUND, "off by %lld", (long long)worst);
	printf("  at most %lld ns from sn_now(), from 10 ms after\n", (long long)worst);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--expect=vdso")) {
			expected_source = SN_CLOCK_SOURCE_VDSO;
		} else if (!strcmp(argv[i], "--expect=syscall")) {
			expected_source = SN_CLOCK_SOURCE_SYSCALL;
		} else if (!strcmp(argv[i], "--short")) {
			loops = SHORT_LOOPS;
			many_reads = 200000;
		} else if (!strncmp(argv[i], "--never-back=", 13)) {
			many_reads = atol(argv[i] + 13);
			run("now never goes back between threads",
			    now_never_goes_back_between_threads);
			run("ticks never go back between threads",
			    ticks_never_go_back_between_threads);
			return failed != 0;
		} else if (!strncmp(argv[i], "--follow=", 9)) {
			follow_ns = atol(argv[i] + 9) * SECOND;
			run("ticks follow the kernel", ticks_follow_the_kernel);
			return failed != 0;
		} else if (!strncmp(argv[i], "--setns=", 8)) {
			namespace_offset = atol(argv[i] + 8);
			run("ticks follow into a time namespace",
			    ticks_follow_into_a_time_namespace);
			return failed != 0;
		} else if (!strcmp(argv[i], "--million")) {
			do_a_million(1000000);
			return 0;
		} else {
			fprintf(stderr,
				"unknown argument \"%s\"; expected: --expect=vdso, "
				"--expect=syscall, --short, --never-back=READS, "
				"--follow=SECONDS, --million, --setns=SECONDS\n",
				argv[i]);
			return 2;
		}
	}

	/* This program need not show that the kernel's own times never go back. */
	if (loops == SHORT_LOOPS && expected_source == SN_CLOCK_SOURCE_SYSCALL)
		many_reads /= 10;

	/* Flushed after each line even into a pipe, so that a crash shows where it happened. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	/* This test is the first, because no other call may have used that function before it. */
	run("random bytes need no preparation in a sandbox",
	    random_bytes_need_no_preparation_in_a_sandbox);
	run("the source is the expected one", the_source_is_the_expected_one);
	run("every id agrees with the kernel", every_id_agrees_with_the_kernel);
	run("every resolution is the kernel's", every_resolution_is_the_kernels);
	run("unknown ids are refused", unknown_ids_are_refused);
	run("errno is left alone", errno_is_left_alone);
	run("CPU clock ids work", cpu_clock_ids_work);
	run("coarse is the kernel's and never leads", coarse_is_the_kernels_and_never_leads);
	run("seconds are the kernel's and never lead", seconds_are_the_kernels_and_never_lead);
	run("nanoseconds are the kernel's", nanoseconds_are_the_kernels);
	run("walltime is the kernel's", walltime_is_the_kernels);
	run("gettimeofday is the kernel's", gettimeofday_is_the_kernels);
	run("the CPU is the one we are bound to", the_cpu_is_the_one_we_are_bound_to);
	run("now never goes back between threads", now_never_goes_back_between_threads);
	run("ticks never go back between threads", ticks_never_go_back_between_threads);
	run("now never goes back between processes", now_never_goes_back_between_processes);
	run("ticks follow the kernel", ticks_follow_the_kernel);
	run("ticks stay right across pauses", ticks_stay_right_across_pauses);
	run("ticks are right after fork", ticks_are_right_after_fork);
	run("the counter counts", the_counter_counts);
	run("random bytes differ", random_bytes_differ);
	run("random bytes differ after fork", random_bytes_differ_after_fork);
	run("random bytes from many threads", random_bytes_from_many_threads);
#if !SN_ASAN && !SN_TSAN && SENNIT_HAS_GETCONTEXT
	run("stack use is bounded", stack_use_is_bounded);
#endif
	run("signals may land in the vDSO", signals_may_land_in_the_vdso);
	run("bad pointers behave as in libc", bad_pointers_behave_as_in_libc);
	run("bad pointers are errors of system calls", bad_pointers_are_errors_of_system_calls);
	if (expected_source == SN_CLOCK_SOURCE_VDSO)
		run("no system call is made in a sandbox", no_system_call_is_made_in_a_sandbox);
	if (expected_source == SN_CLOCK_SOURCE_SYSCALL)
		run("an error is returned without a source", an_error_is_returned_without_a_source);
	if (skipped)
		printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
	else
		printf("%d passed, %d failed\n", passed, failed);
	return failed != 0;
}
