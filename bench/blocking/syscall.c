/* SPDX-License-Identifier: MIT */
/*
 * The cost of a blocking bracket when nothing blocks: Go's BenchmarkSyscall and
 * BenchmarkSyscallWork (src/runtime/norace_test.go) with sn_enter_blocking() for entersyscall and
 * sn_exit_blocking() for exitsyscall. As in testing.B.RunParallel there is one task per processor,
 * and the tasks take the iterations in grains of about 100 us.
 *
 *	bench-blocking-syscall [benchmark] [seconds, default 1] [processors..., default 1 2 4]
 *
 * Prints Go's benchmark format, which benchstat reads: the elapsed time per iteration, as Go does,
 * and the CPU time, which other load on the machine disturbs less. bench/blocking/syscall.py runs
 * it beside Go.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <sennit/sennit.h>

#define GRAIN_NS 100000
#define MOST_ITERATIONS 2000000000u
#define MOST_PROCESSORS 64

struct benchmark {
	const char *name;
	int work; /* the argument of Go's benchmarkSyscall() */
};

static const struct benchmark benchmarks[] = {
	{"Syscall", 0},
	{"SyscallWork", 100},
};

static struct {
	const struct benchmark *benchmark;
	int processors;
	double seconds;

	uint64_t iterations, grain;
	_Atomic uint64_t taken;
} state;

/* Go's pb.Next(). */
struct share {
	uint64_t left;
};

static inline bool next(struct share *share)
{
	if (share->left == 0) {
		uint64_t n = atomic_fetch_add(&state.taken, state.grain);

		if (n >= state.iterations)
			return false;
		share->left =
			state.iterations - n < state.grain ? state.iterations - n : state.grain;
	}
	share->left--;
	return true;
}

/*
 * The benchmark's loop doubles and halves a variable that is never used. Go's compiler (1.26)
 * reduces it to an increment, a comparison and a jump. The assembly keeps the C compiler from
 * removing the loop.
 */
static inline void work(int n)
{
	for (int i = 0; i < n; i++)
		__asm__ volatile("" : "+r"(i));
}

static int worker(void *arg)
{
	struct share share = {0};
	int n = state.benchmark->work;

	(void)arg;
	while (next(&share)) {
		sn_enter_blocking();
		work(n);
		sn_exit_blocking();
	}
	return 0;
}

static int64_t cpu_time(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * (int64_t)1000000000 +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * (int64_t)1000;
}

/* The nanoseconds that the iterations took. */
static int64_t measure(uint64_t iterations, double ns_each, int64_t *cpu)
{
	sn_task *tasks[MOST_PROCESSORS];
	int64_t began, cpu_began = cpu_time();

	state.iterations = iterations;
	state.grain = ns_each > 0 ? (uint64_t)(GRAIN_NS / ns_each) : 1;
	if (state.grain < 1)
		state.grain = 1;
	atomic_store(&state.taken, 0);
	began = sn_now();
	for (int i = 0; i < state.processors; i++) {
		if (sn_spawn(&tasks[i], worker, NULL, NULL) < 0)
			abort();
	}
	for (int i = 0; i < state.processors; i++)
		sn_join(tasks[i], NULL);
	*cpu = cpu_time() - cpu_began;
	return sn_now() - began;
}

static int run(void *arg)
{
	uint64_t n = 1;
	int64_t cpu, took = measure(1, 0, &cpu);
	double wanted = state.seconds * 1e9;

	(void)arg;
	/* As in testing.B, grows the number of iterations towards the wanted time, by a factor
	 * of at most 100 in each step. */
	while ((double)took < wanted && n < MOST_ITERATIONS) {
		double more = 1.2 * wanted * (double)n / (double)(took > 0 ? took : 1);

		if (more > 100.0 * (double)n)
			more = 100.0 * (double)n;
		if (more < (double)n + 1)
			more = (double)n + 1;
		if (more > MOST_ITERATIONS)
			more = MOST_ITERATIONS;
		n = (uint64_t)more;
		took = measure(n, (double)took / (double)n, &cpu);
	}
	printf("Benchmark%s", state.benchmark->name);
	if (state.processors > 1)
		printf("-%d", state.processors); /* Go leaves out a 1 */
	printf("\t%12" PRIu64 "\t%12.4g ns/op\t%12.4g cpu-ns/op\n", n, (double)took / (double)n,
	       (double)cpu / (double)n);
	fflush(stdout);
	return 0;
}

static int usage(const char *program)
{
	fprintf(stderr, "usage: %s [Syscall|SyscallWork|all] [seconds] [processors...]\n", program);
	return 2;
}

int main(int argc, char **argv)
{
	const char *chosen = argc > 1 ? argv[1] : "all";
	int processors[MOST_PROCESSORS] = {1, 2, 4}, n = 3;
	bool any = false;

	state.seconds = argc > 2 ? strtod(argv[2], NULL) : 1;
	if (argc > 3)
		n = 0;
	for (int i = 3; i < argc && n < MOST_PROCESSORS; i++)
		processors[n++] = (int)strtol(argv[i], NULL, 10);
	for (int i = 0; i < n; i++)
		if (state.seconds <= 0 || processors[i] < 1 || processors[i] > MOST_PROCESSORS)
			return usage(argv[0]);
	for (size_t b = 0; b < sizeof benchmarks / sizeof *benchmarks; b++) {
		if (strcmp(chosen, "all") != 0 && strcmp(chosen, benchmarks[b].name) != 0)
			continue;
		any = true;
		for (int i = 0; i < n; i++) {
			char text[16];
			int err;

			snprintf(text, sizeof text, "%d", processors[i]);
			setenv("SENNIT_PROCS", text, 1);
			state.benchmark = &benchmarks[b];
			state.processors = processors[i];
			err = sn_run(run, NULL);
			if (err < 0) {
				fprintf(stderr, "%s\n", strerror(-err));
				return 1;
			}
		}
	}
	return any ? 0 : usage(argv[0]);
}
