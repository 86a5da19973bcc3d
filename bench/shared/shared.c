/* SPDX-License-Identifier: MIT */
/*
 * Measures what one operation does to memory that processors share: bench-shared OPERATION, with
 * SENNIT_PROCS. shared.py runs it and makes tables.
 *
 * There is a task for each processor. All do the operation, each with objects of its own, until
 * each has a few windows of OPERATIONS operations on one thread. The most frequent sequence of
 * accesses of all operations is reported; operations that are interrupted, or that fall on a fair
 * turn, are dropped. Counts therefore do not depend on the machine's speed or on what else runs.
 *
 * A cache line is shared if operations of tasks on different threads have touched it. For memory
 * that need not be shared this is the worst case, because all tasks do the same.
 *
 * Output: "operations N of M threads T", then a line for each write to shared or watched memory,
 * read-modify-write, fence and system call of the operation:
 *
 *	KIND PC shared|watched|own DATA     or     syscall NAME
 *
 * watched: the line was otherwise touched only by threads without a task, such as the monitor.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sennit/sennit.h>

#include "../check.h"
#include "count.h"
#include "operations.h"
#include "sched/processor.h"
#include "sched/runtime.h"
#include "sched/thread.h"

#define WARM 300
#define OPERATIONS 64
#define WINDOWS 3
#define ATTEMPTS 200
#define MOST_PROCS 256

/* How long threads without a window are watched: some rounds of the monitor. */
#define WATCH_NS 100000000

struct sample {
	uint64_t hash;
	int thread;
	uint32_t n;
	struct count_event *events;
};

struct worker {
	struct sn_thread *home;
	int thread, windows;
	struct sample samples[WINDOWS * OPERATIONS];
	int count;
};

static const struct operation *operation;
static struct worker *workers[MOST_PROCS];
static int procs;
static _Atomic int arrived, opened, finished;
static _Atomic int64_t watched_until;

/* ---- windows ---- */

static uint64_t hash_of(const struct count_event *events, uint32_t n)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (uint32_t i = 0; i < n; i++)
		hash = (hash ^ (events[i].pc * 8 + events[i].kind)) * 0x100000001b3u;
	return hash;
}

static void keep(struct worker *worker, const struct count_event *events, uint32_t n)
{
	struct sample *sample = &worker->samples[worker->count++];

	sample->events = malloc((n + 1) * sizeof *events);
	CHECK(sample->events);
	memcpy(sample->events, events, n * sizeof *events);
	sample->n = n;
	sample->hash = hash_of(events, n);
	sample->thread = worker->thread;
}

static void window(struct worker *worker, void *on)
{
	struct count_log *log = count_open();
	const struct count_event *events;
	uint32_t n, from = 0, marks = 0;

	if (!log)
		return;
	count_mark();
	for (int i = 0; i < OPERATIONS; i++) {
		operation->once(on);
		count_mark();
	}
	if (!count_close(log, &events, &n) ||
	    (worker->windows > 0 && worker->thread != count_thread()))
		return;
	worker->thread = count_thread();
	worker->home = sn_thread_self();
	for (uint32_t i = 0; i < n; i++)
		marks += events[i].kind == COUNT_MARK;
	/* With any other number, the window has another task's marks. */
	if (marks != OPERATIONS + 1)
		return;
	worker->windows++;
	for (uint32_t i = 0; i < n; i++) {
		if (events[i].kind != COUNT_MARK)
			continue;
		if (i > 0)
			keep(worker, events + from, i - from);
		from = i + 1;
	}
}

static int work(void *arg)
{
	struct worker *worker = arg;
	void *on;

	/* Keeps the processor busy until every processor has its task. From then on no processor
	 * is idle, and so none steals a partner. */
	atomic_fetch_add(&arrived, 1);
	while (atomic_load(&arrived) < procs)
		sched_yield();
	on = operation->begin();
	for (int i = 0; i < WARM; i++)
		operation->once(on);
	/* From here on each worker's thread has had a window, so none counts as a watched
	 * thread. */
	window(worker, on);
	if (atomic_fetch_add(&opened, 1) == procs - 1) {
		count_watch();
		atomic_store(&watched_until, sn_now() + WATCH_NS);
	}
	for (int i = 0; i < ATTEMPTS && worker->windows < WINDOWS; i++)
		window(worker, on);
	atomic_fetch_add(&finished, 1);
	while (atomic_load(&finished) < procs || sn_now() < atomic_load(&watched_until)) {
		operation->once(on);
		sched_yield();
	}
	return 0;
}

/* ---- lines ---- */

#define TABLE (1 << 20)

static struct line {
	uintptr_t line;
	int thread;
	bool shared;
} lines[TABLE];

static struct line *line_of(uintptr_t address)
{
	uintptr_t line = address / LINE * LINE;
	uint32_t i = (uint32_t)((line / LINE * 0x9e3779b97f4a7c15u) >> 40) % TABLE;

	while (lines[i].line && lines[i].line != line)
		i = (i + 1) % TABLE;
	if (!lines[i].line)
		lines[i] = (struct line){line, -1, false};
	return &lines[i];
}

static void touch(const struct sample *sample)
{
	for (uint32_t i = 0; i < sample->n; i++) {
		struct line *line;

		if (sample->events[i].kind > COUNT_RMW)
			continue;
		line = line_of(sample->events[i].address);
		if (line->thread >= 0 && line->thread != sample->thread)
			line->shared = true;
		line->thread = sample->thread;
	}
}

/* ---- the report ---- */

static void for_each(uint64_t hash, void (*call)(const struct sample *sample))
{
	for (int w = 0; w < procs; w++)
		for (int i = 0; i < workers[w]->count; i++)
			if (!hash || workers[w]->samples[i].hash == hash)
				call(&workers[w]->samples[i]);
}

static uint64_t sought;
static int seen, of;

static void count_equal(const struct sample *sample)
{
	of++;
	seen += sample->hash == sought;
}

static uint64_t most_frequent(int *most)
{
	uint64_t best = 0;

	*most = 0;
	for (int w = 0; w < procs; w++) {
		/* The most frequent sequence is certainly among the last ones of some task. */
		for (int i = workers[w]->count - 1; i >= 0 && i >= workers[w]->count - 8; i--) {
			sought = workers[w]->samples[i].hash;
			seen = of = 0;
			for_each(0, count_equal);
			if (seen > *most) {
				*most = seen;
				best = sought;
			}
		}
	}
	return best;
}

static uint32_t position;
static int shared_there, watched_there, there;
static const struct sample *example;

static void look(const struct sample *sample)
{
	uintptr_t address = sample->events[position].address;

	example = sample;
	there++;
	shared_there += line_of(address)->shared;
	watched_there += count_watched(address / LINE * LINE);
}

static void print_data(uintptr_t address)
{
	uintptr_t processors = (uintptr_t)sn_runtime.processors;
	size_t size = sizeof(struct sn_processor);

	if (address >= processors && address < processors + size * (size_t)sn_runtime.capacity) {
		printf("processor+%zu\n", (size_t)(address - processors) % size);
		return;
	}
	for (int w = 0; w < procs; w++) {
		uintptr_t thread = (uintptr_t)workers[w]->home;

		if (address >= thread && address < thread + sizeof(struct sn_thread)) {
			printf("thread+%zu\n", (size_t)(address - thread));
			return;
		}
	}
	printf("0x%" PRIxPTR "\n", address);
}

static void print_event(uint64_t hash, const struct count_event *event)
{
	static const char *const kinds[] = {"read", "write", "store-fenced", "rmw", "fence"};
	const char *state = "own";

	if (event->kind == COUNT_SYSCALL) {
		printf("syscall %s\n", (const char *)event->pc);
		return;
	}
	if (event->kind == COUNT_FENCE) {
		printf("fence 0x%" PRIxPTR " own -\n", event->pc);
		return;
	}
	shared_there = watched_there = there = 0;
	for_each(hash, look);
	if (shared_there * 2 > there)
		state = "shared";
	else if (watched_there * 2 > there)
		state = "watched";
	if (event->kind == COUNT_READ || (event->kind == COUNT_WRITE && strcmp(state, "own") == 0))
		return;
	printf("%s 0x%" PRIxPTR " %s ", kinds[event->kind], event->pc, state);
	print_data(event->address);
}

static void distinct_threads(int *n)
{
	*n = 0;
	for (int w = 0; w < procs; w++) {
		bool known = workers[w]->count == 0;

		for (int v = 0; v < w; v++)
			known |= workers[v]->count && workers[v]->thread == workers[w]->thread;
		*n += !known;
	}
}

static void report(void)
{
	int most, threads;
	uint64_t hash = most_frequent(&most);
	const struct sample *sample;

	distinct_threads(&threads);
	for_each(hash, touch);
	position = 0;
	CHECK(most > 0);
	/* Any example will do, because only addresses differ. */
	example = NULL;
	for (int w = 0; w < procs && !example; w++)
		for (int i = 0; i < workers[w]->count; i++)
			if (workers[w]->samples[i].hash == hash)
				example = &workers[w]->samples[i];
	sample = example;
	printf("operations %d of %d threads %d\n", most, of, threads);
	for (; position < sample->n; position++)
		print_event(hash, &sample->events[position]);
}

static int first(void *arg)
{
	sn_task *tasks[MOST_PROCS];

	(void)arg;
	for (int i = 0; i < procs; i++)
		CHECK(sn_spawn(&tasks[i], work, workers[i], NULL) == 0);
	for (int i = 0; i < procs; i++)
		CHECK(sn_join(tasks[i], NULL) == 0);
	report();
	fflush(stdout);
	_exit(0);
}

int main(int argc, char **argv)
{
	const char *wish = getenv("SENNIT_PROCS");

	procs = wish ? atoi(wish) : 0;
	for (const struct operation *each = operations; each->name; each++)
		if (argc == 2 && strcmp(argv[1], each->name) == 0)
			operation = each;
	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (const struct operation *each = operations; each->name; each++)
			puts(each->name);
		return 0;
	}
	if (!operation || procs < 1 || procs > MOST_PROCS) {
		fprintf(stderr, "usage: SENNIT_PROCS=1..%d bench-shared OPERATION|--list\n",
			MOST_PROCS);
		return 2;
	}
	for (int i = 0; i < procs; i++) {
		workers[i] = calloc(1, sizeof *workers[i]);
		CHECK(workers[i]);
	}
	return sn_run(first, NULL) == 0 ? 0 : 1;
}
