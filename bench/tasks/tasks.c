/* SPDX-License-Identifier: MIT */
/*
 * The cost of tasks and channels:
 *
 *	bench-tasks [--repeats=5] [--procs=1,2] [--scale=1] [name...]
 *
 * Prints one line per row, "name processors value unit": the median of the repeats, each of which
 * runs in a separate process. scale divides the number of operations; names select rows by prefix.
 *
 *   spawn-all    tasks spawned, up to 1M alive at once, then each of them joined; per task
 *   spawn-group  the same, waited for together by a wait group; per task
 *   spawn-join   spawned and joined one at a time; per task
 *   yield        two tasks yield to each other; per yield
 *   ping-pong    two tasks over two unbuffered channels; per round trip
 *   buffered-1   one sends to one over a buffer of 128; per item
 *   buffered-4   four send to four over a buffer of 128; per item
 *   select-4     one receives from four unbuffered channels, with a sender each; per receive
 *   mutex-8      eight tasks lock and unlock one mutex; per lock and unlock
 *   skynet       a tree of tasks, ten to a node, with 1M leaves; in total
 *   sleeps       1M tasks sleep for a second; CPU time per task, including the spawn
 *   idle-task    memory of a sleeping task, including page tables
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sennit/sennit.h>

#include "../check.h"

static long scale = 1;

/* ---- tasks ---- */

static int nothing(void *arg)
{
	(void)arg;
	return 0;
}

static double spawn_all(void)
{
	long n = 1000000 / scale;
	sn_task **tasks = malloc((size_t)n * sizeof(sn_task *));
	int64_t start = sn_now();

	CHECK(tasks);
	for (long i = 0; i < n; i++)
		CHECK(sn_spawn(&tasks[i], nothing, NULL, NULL) == 0);
	for (long i = 0; i < n; i++)
		CHECK(sn_join(tasks[i], NULL) == 0);
	return (double)(sn_now() - start) / (double)n;
}

static int counted(void *arg)
{
	return sn_waitgroup_done(arg);
}

static double spawn_group(void)
{
	int n = (int)(1000000 / scale);
	sn_waitgroup left = SN_WAITGROUP_INIT;
	int64_t start = sn_now();

	CHECK(sn_waitgroup_add(&left, n) == 0);
	for (int i = 0; i < n; i++)
		CHECK(sn_go(counted, &left) == 0);
	CHECK(sn_waitgroup_wait(&left) == 0);
	return (double)(sn_now() - start) / (double)n;
}

static double spawn_join(void)
{
	long n = 1000000 / scale;
	int64_t start = sn_now();

	for (long i = 0; i < n; i++) {
		sn_task *task;

		CHECK(sn_spawn(&task, nothing, NULL, NULL) == 0);
		CHECK(sn_join(task, NULL) == 0);
	}
	return (double)(sn_now() - start) / (double)n;
}

static int yielder(void *arg)
{
	for (long n = *(long *)arg; n > 0; n--)
		sn_yield();
	return 0;
}

static double yield(void)
{
	long n = 5000000 / scale;
	sn_task *other;
	int64_t start = sn_now();

	CHECK(sn_spawn(&other, yielder, &n, NULL) == 0);
	yielder(&n);
	CHECK(sn_join(other, NULL) == 0);
	return (double)(sn_now() - start) / (2.0 * (double)n);
}

/* ---- channels ---- */

typedef sn_chan_of(long) numbers;

struct work {
	numbers from, to;
	long n;
};

static int echo(void *arg)
{
	struct work *work = arg;
	long value;

	while (sn_recv(work->from, &value) == 0)
		CHECK(sn_send(work->to, value) == 0);
	return 0;
}

static double ping_pong(void)
{
	struct work work = {.n = 2000000 / scale};
	sn_task *other;
	int64_t start;
	long value;

	CHECK(sn_chan_new_of(&work.from, 0) == 0 && sn_chan_new_of(&work.to, 0) == 0);
	CHECK(sn_spawn(&other, echo, &work, NULL) == 0);
	start = sn_now();
	for (long i = 0; i < work.n; i++) {
		CHECK(sn_send(work.from, i) == 0);
		CHECK(sn_recv(work.to, &value) == 0 && value == i);
	}
	start = sn_now() - start;
	sn_chan_close_of(work.from);
	CHECK(sn_join(other, NULL) == 0);
	return (double)start / (double)work.n;
}

static int producer(void *arg)
{
	struct work *work = arg;

	for (long i = 0; i < work->n; i++)
		CHECK(sn_send(work->to, i) == 0);
	return 0;
}

static int consumer(void *arg)
{
	struct work *work = arg;
	long value;

	while (sn_recv(work->to, &value) == 0)
		work->n++;
	return 0;
}

static double buffered(int width)
{
	struct work out = {.n = 10000000 / scale / width}, in[4] = {{.n = 0}};
	sn_task *producers[4], *consumers[4];
	long received = 0;
	int64_t start;

	CHECK(sn_chan_new_of(&out.to, 128) == 0);
	start = sn_now();
	for (int i = 0; i < width; i++) {
		in[i].to = out.to;
		CHECK(sn_spawn(&consumers[i], consumer, &in[i], NULL) == 0);
		CHECK(sn_spawn(&producers[i], producer, &out, NULL) == 0);
	}
	for (int i = 0; i < width; i++)
		CHECK(sn_join(producers[i], NULL) == 0);
	sn_chan_close_of(out.to);
	for (int i = 0; i < width; i++) {
		CHECK(sn_join(consumers[i], NULL) == 0);
		received += in[i].n;
	}
	CHECK(received == out.n * width);
	return (double)(sn_now() - start) / (double)received;
}

static double buffered_1(void)
{
	return buffered(1);
}

static double buffered_4(void)
{
	return buffered(4);
}

static double select_4(void)
{
	struct work work[4];
	struct sn_case cases[4];
	sn_task *producers[4];
	long n = 1000000 / scale, value;
	int64_t start;

	for (int i = 0; i < 4; i++) {
		work[i].n = n;
		CHECK(sn_chan_new_of(&work[i].to, 0) == 0);
		cases[i] = (struct sn_case)sn_case_recv(work[i].to, &value);
		CHECK(sn_spawn(&producers[i], producer, &work[i], NULL) == 0);
	}
	start = sn_now();
	for (long i = 0; i < 4 * n; i++)
		CHECK(sn_select(cases, 4, SN_NO_DEADLINE) >= 0);
	start = sn_now() - start;
	for (int i = 0; i < 4; i++)
		CHECK(sn_join(producers[i], NULL) == 0);
	return (double)start / (4.0 * (double)n);
}

/* ---- a lock ---- */

#define FIGHTERS 8

struct fight {
	sn_mutex lock;
	long rounds, count;
};

static int fighter(void *arg)
{
	struct fight *fight = arg;

	for (long i = 0; i < fight->rounds; i++) {
		CHECK(sn_mutex_lock(&fight->lock) == 0);
		fight->count++;
		sn_mutex_unlock(&fight->lock);
	}
	return 0;
}

static double mutex_8(void)
{
	struct fight fight = {.lock = SN_MUTEX_INIT, .rounds = 4000000 / scale / FIGHTERS};
	sn_task *tasks[FIGHTERS];
	int64_t start = sn_now();

	for (int i = 0; i < FIGHTERS; i++)
		CHECK(sn_spawn(&tasks[i], fighter, &fight, NULL) == 0);
	for (int i = 0; i < FIGHTERS; i++)
		CHECK(sn_join(tasks[i], NULL) == 0);
	CHECK(fight.count == fight.rounds * FIGHTERS);
	return (double)(sn_now() - start) / (double)fight.count;
}

/* ---- crowds ---- */

struct leaf {
	int64_t number, size, sum;
};

static int skynet_node(void *arg)
{
	struct leaf *node = arg, children[10];
	sn_task *tasks[10];

	if (node->size == 1) {
		node->sum = node->number;
		return 0;
	}
	for (int i = 0; i < 10; i++) {
		children[i].size = node->size / 10;
		children[i].number = node->number + i * children[i].size;
		CHECK(sn_spawn(&tasks[i], skynet_node, &children[i], NULL) == 0);
	}
	node->sum = 0;
	for (int i = 0; i < 10; i++) {
		CHECK(sn_join(tasks[i], NULL) == 0);
		node->sum += children[i].sum;
	}
	return 0;
}

static double skynet(void)
{
	struct leaf root = {.size = 1000000};
	int64_t start = sn_now();

	while (root.size > 1000000 / scale)
		root.size /= 10;
	skynet_node(&root);
	CHECK(root.sum == root.size * (root.size - 1) / 2);
	return (double)(sn_now() - start) / 1e6;
}

/* The time counts from the first turn, as with the peers. If it counted from the spawn, a task that
 * begins late would not sleep at all, and need no stack of its own. */
static int sleeper(void *arg)
{
	(void)arg;
	return sn_sleep(1000000000);
}

static double cpu_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static double sleeps(void)
{
	long n = 1000000 / scale;
	sn_task **tasks = malloc((size_t)n * sizeof(sn_task *));
	double before = cpu_seconds();

	CHECK(tasks);
	for (long i = 0; i < n; i++)
		CHECK(sn_spawn(&tasks[i], sleeper, NULL, NULL) == 0);
	for (long i = 0; i < n; i++)
		CHECK(sn_join(tasks[i], NULL) == 0);
	return (cpu_seconds() - before) / (double)n * 1e9;
}

/* Resident memory and page tables. */
static double memory(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[256];
	double kib = 0;

	CHECK(file);
	while (fgets(line, sizeof line, file))
		if (strncmp(line, "VmRSS:", 6) == 0 || strncmp(line, "VmPTE:", 6) == 0)
			kib += strtod(line + 6, NULL);
	fclose(file);
	return kib * 1024;
}

static double idle_task(void)
{
	long n = 100000 / scale;
	sn_task **tasks = malloc((size_t)n * sizeof(sn_task *));
	int64_t until = sn_now() + 2000000000;
	double before, value;

	CHECK(tasks);
	memset(tasks, 0, (size_t)n * sizeof(sn_task *));
	before = memory();
	for (long i = 0; i < n; i++)
		CHECK(sn_spawn(&tasks[i], sleeper, &until, NULL) == 0);
	sn_sleep(1000000000);
	value = (memory() - before) / (double)n;
	for (long i = 0; i < n; i++)
		CHECK(sn_join(tasks[i], NULL) == 0);
	return value;
}

/* ---- measuring ---- */

static const struct row {
	const char *name;
	double (*measure)(void);
	const char *unit;
} rows[] = {
	{"spawn-all", spawn_all, "ns"},   {"spawn-group", spawn_group, "ns"},
	{"spawn-join", spawn_join, "ns"}, {"yield", yield, "ns"},
	{"ping-pong", ping_pong, "ns"},   {"buffered-1", buffered_1, "ns"},
	{"buffered-4", buffered_4, "ns"}, {"mutex-8", mutex_8, "ns"},
	{"select-4", select_4, "ns"},     {"skynet", skynet, "ms"},
	{"sleeps", sleeps, "ns"},         {"idle-task", idle_task, "bytes"},
};
#define ROWS (sizeof rows / sizeof rows[0])

struct run {
	const struct row *row;
	double value;
};

static int first(void *arg)
{
	struct run *run = arg;

	run->value = run->row->measure();
	return 0;
}

/* Measures in a separate process, so that no row is affected by what another one has left
 * behind. */
static double measure(const struct row *row, const char *processors)
{
	struct run run = {.row = row};
	int ends[2], status;
	pid_t child;

	CHECK(pipe(ends) == 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		setenv("SENNIT_PROCS", processors, 1);
		CHECK(sn_run(first, &run) == 0);
		CHECK(write(ends[1], &run.value, sizeof run.value) == sizeof run.value);
		_exit(0);
	}
	close(ends[1]);
	CHECK(read(ends[0], &run.value, sizeof run.value) == sizeof run.value);
	close(ends[0]);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	return run.value;
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a < b ? -1 : a > b;
}

static void print_median(const struct row *row, const char *processors, int repeats)
{
	double values[100];

	for (int i = 0; i < repeats; i++)
		values[i] = measure(row, processors);
	qsort(values, (size_t)repeats, sizeof values[0], compare);
	printf("%-11s %s %8.1f %s\n", row->name, processors, values[repeats / 2], row->unit);
	fflush(stdout);
}

static int chosen(const char *name, int argc, char **argv)
{
	int any = 0;

	for (int i = 1; i < argc; i++) {
		if (argv[i][0] == '-')
			continue;
		any = 1;
		if (strncmp(name, argv[i], strlen(argv[i])) == 0)
			return 1;
	}
	return !any;
}

int main(int argc, char **argv)
{
	char each[64] = "1,2", *rest = each, *processors;
	int repeats = 5;

	for (int i = 1; i < argc; i++) {
		if (sscanf(argv[i], "--repeats=%d", &repeats) == 1 ||
		    sscanf(argv[i], "--scale=%ld", &scale) == 1 ||
		    sscanf(argv[i], "--procs=%63s", each) == 1 || argv[i][0] != '-')
			continue;
		fprintf(stderr, "bench-tasks: unknown argument \"%s\"; see the top of tasks.c\n",
			argv[i]);
		return 2;
	}
	if (repeats < 1 || repeats > 100 || scale < 1 || scale > 100000) {
		fprintf(stderr, "bench-tasks: repeats are 1 to 100, the scale 1 to 100000\n");
		return 2;
	}
	while ((processors = strsep(&rest, ",")) != NULL)
		for (size_t i = 0; i < ROWS; i++)
			if (chosen(rows[i].name, argc, argv))
				print_median(&rows[i], processors, repeats);
	return 0;
}
