/* SPDX-License-Identifier: MIT */
/*
 * An HTTP server and its clients in one process, with garbage collections so frequent that they
 * show in the latency:
 *
 *	bench-wait [--seconds=1] [--warm=0.2] [--clients=0] [--live=512] [--every=400] [--name=none]
 *
 * It measures what golang.org/x/benchmarks' http measures: four clients per processor (or as many
 * as --clients says), each with a persistent connection, each sending its next request once it has
 * read the answer to the previous one; wait.go is the same with Go's net/http. Both ends are tasks,
 * both parse with http_parser, and both allocate what they read and write from the Boehm collector,
 * as Go's do from Go's heap: every header and its strings, and the buffers of the answer. Live data
 * are a tree of --live KiB and the last 16 answers of each client.
 *
 * A collection begins when --every KiB have been allocated since the last one. At twice as many, a
 * task that allocates waits until the collection is over, which counts as latency. The default
 * corresponds to GOGC=10, which collects when the heap has grown by a tenth over the live data. But
 * Go's minimum heap is 400 KiB, and allocations during a collection come on top, so wait.go, with
 * the same tree, collects about once in 840 KiB. Both print the bytes between two collections,
 * which shows which of them collects more often.
 *
 * A collection begins, as in Go, by scanning the stack of every task word by word with
 * sn_task_scan() while the other tasks run. Then the Boehm collector's own collection follows,
 * which stops the world. Built without that (SENNIT_GC off, or no libgc) the memory is malloc()'s,
 * and a collection consists of the scans alone.
 *
 * Prints a line in the format of Go's benchmarks, which benchstat reads. Latencies are quantiles
 * over all requests that began in the measured time. An unexpected answer ends the program with
 * status 1.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <http_parser.h>

#include <sennit/scan.h>
#include <sennit/sennit.h>

#include "../check.h"

#if BENCH_GC
#	include <gc/gc.h>
#	include <sennit/gc.h>
#endif

#define BODY "Hello world.\n"
#define KEPT 16
#define READ_SIZE 4096

static double seconds = 1, warm = 0.2;
static long client_count, live_kib = 512, every_kib = 400;
static const char *name = "none";

/* ---- memory ---- */

static _Atomic uint64_t allocated; /* by all tasks, added once per message */
static _Atomic uint64_t collected_at;
static _Atomic bool collecting, ending;
static sn_semaphore garbage; /* 1 when there is enough to collect */
static sn_mutex full_lock = SN_MUTEX_INIT;
static sn_cond collected = SN_COND_INIT;
static _Atomic uint64_t collections, scans, looked_at;

/*
 * The memory that one message allocates. With a collector this is only a count; without one it
 * lists the memory, which is freed with the message. It is on the stack of the task that reads or
 * writes the message.
 */
struct memory {
	uint64_t bytes;
	struct chunk *chunks;
};

#if BENCH_GC

static void *allocate(struct memory *memory, size_t size)
{
	void *p = GC_MALLOC(size);

	CHECK(p);
	memory->bytes += size;
	return p;
}

/* For data without pointers. */
static void *allocate_bytes(struct memory *memory, size_t size)
{
	void *p = GC_MALLOC_ATOMIC(size);

	CHECK(p);
	memory->bytes += size;
	return p;
}

static void forget(struct memory *memory)
{
	atomic_fetch_add_explicit(&allocated, memory->bytes, memory_order_relaxed);
	memory->bytes = 0;
}

#else

struct chunk {
	_Alignas(16) struct chunk *next;
};

static void *allocate(struct memory *memory, size_t size)
{
	struct chunk *chunk = malloc(sizeof *chunk + size);

	CHECK(chunk);
	memset(chunk + 1, 0, size);
	chunk->next = memory->chunks;
	memory->chunks = chunk;
	memory->bytes += size;
	return chunk + 1;
}

static void *allocate_bytes(struct memory *memory, size_t size)
{
	return allocate(memory, size);
}

static void forget(struct memory *memory)
{
	struct chunk *chunk;

	atomic_fetch_add_explicit(&allocated, memory->bytes, memory_order_relaxed);
	memory->bytes = 0;
	while ((chunk = memory->chunks) != NULL) {
		memory->chunks = chunk->next;
		free(chunk);
	}
}

#endif

/* Data that live as long as the program: a binary tree of cache lines. */
struct node {
	struct node *left, *right;
	char rest[48];
};

static struct node *root;

static struct node *grow(struct memory *memory, long nodes)
{
	struct node *node;

	if (nodes <= 0)
		return NULL;
	node = allocate(memory, sizeof *node);
	node->left = grow(memory, (nodes - 1) / 2);
	node->right = grow(memory, nodes - 1 - (nodes - 1) / 2);
	return node;
}

static long count_nodes(const struct node *node)
{
	return node ? 1 + count_nodes(node->left) + count_nodes(node->right) : 0;
}

/* ---- collections ---- */

static sn_task *_Atomic *tasks; /* clients, then sessions; NULL: not started */
static long task_count;
static sn_waitgroup busy = SN_WAITGROUP_INIT;

/* Reads a stack as a collector would, to find references. May run in a signal handler. */
static void look(const struct sn_scan *scan, void *arg)
{
	const uintptr_t *word = scan->stack_low;
	uint64_t *found = arg;

	for (; word && word + 1 <= (const uintptr_t *)scan->stack_high; word++)
		*found += *word != 0;
	for (unsigned i = 0; i < scan->register_count; i++)
		*found += scan->registers[i] != 0;
}

static void collect(void)
{
	uint64_t found = 0, n = 0;

	for (long i = 0; i < task_count; i++) {
		sn_task *task = atomic_load(&tasks[i]);
		int err = task ? sn_task_scan(task, look, &found) : -ESRCH;

		CHECK(err == 0 || err == -ESRCH);
		n += err == 0;
	}
	atomic_fetch_add(&scans, n);
	atomic_fetch_add(&looked_at, found);
#if BENCH_GC
	GC_gcollect();
#endif
	atomic_fetch_add(&collections, 1);
}

static uint64_t since_collection(void)
{
	return atomic_load(&allocated) - atomic_load(&collected_at);
}

/* The collector is a separate task, as in Go: tasks that allocate continue while it scans. */
static int run_collector(void *arg)
{
	(void)arg;
	for (;;) {
		CHECK(sn_semaphore_acquire(&garbage) == 0);
		if (atomic_load(&ending))
			return 0;
		collect();
		CHECK(sn_mutex_lock(&full_lock) == 0);
		atomic_store(&collected_at, atomic_load(&allocated));
		atomic_store(&collecting, false);
		sn_cond_broadcast(&collected);
		sn_mutex_unlock(&full_lock);
	}
}

/*
 * A message was read or written, and its memory is garbage from now on. No task continues while
 * there is twice as much garbage as starts a collection: otherwise a slower collector would collect
 * less often, and the longer its waits, the better it would look.
 */
static void done_with(struct memory *memory)
{
	uint64_t every = (uint64_t)every_kib * 1024;

	forget(memory);
	if (since_collection() < every)
		return;
	if (!atomic_exchange(&collecting, true))
		sn_semaphore_release(&garbage, 1);
	if (since_collection() < 2 * every)
		return;
	CHECK(sn_mutex_lock(&full_lock) == 0);
	while (atomic_load(&collecting) && since_collection() >= 2 * every)
		CHECK(sn_cond_wait(&collected, &full_lock) == 0);
	sn_mutex_unlock(&full_lock);
}

/* ---- messages ---- */

struct header {
	struct header *next;
	char *field, *value;
	size_t field_size, value_size;
};

struct message {
	struct memory *memory;
	char *url;
	size_t url_size;
	struct header *headers;
	char *body;
	size_t body_size, body_room;
	bool in_value, complete;
};

static char *append(struct memory *memory, const char *text, size_t size, const char *more,
		    size_t more_size)
{
	char *joined = allocate_bytes(memory, size + more_size + 1);

	memcpy(joined, text ? text : "", size);
	memcpy(joined + size, more, more_size);
	joined[size + more_size] = 0;
	return joined;
}

static int on_url(http_parser *parser, const char *at, size_t size)
{
	struct message *message = parser->data;

	message->url = append(message->memory, message->url, message->url_size, at, size);
	message->url_size += size;
	return 0;
}

static int on_field(http_parser *parser, const char *at, size_t size)
{
	struct message *message = parser->data;
	struct header *header = message->headers;

	if (!header || message->in_value) {
		header = allocate(message->memory, sizeof *header);
		header->next = message->headers;
		message->headers = header;
		message->in_value = false;
	}
	header->field = append(message->memory, header->field, header->field_size, at, size);
	header->field_size += size;
	return 0;
}

static int on_value(http_parser *parser, const char *at, size_t size)
{
	struct message *message = parser->data;
	struct header *header = message->headers;

	message->in_value = true;
	header->value = append(message->memory, header->value, header->value_size, at, size);
	header->value_size += size;
	return 0;
}

/* Allocates as Go's io.ReadAll() does: 512 bytes, and more if that is not enough. */
static int on_body(http_parser *parser, const char *at, size_t size)
{
	struct message *message = parser->data;

	if (message->body_size + size > message->body_room) {
		size_t room =
			message->body_size + size < 512 ? 512 : 2 * (message->body_size + size);
		char *body = allocate_bytes(message->memory, room);

		if (message->body_size > 0)
			memcpy(body, message->body, message->body_size);
		message->body = body;
		message->body_room = room;
	}
	memcpy(message->body + message->body_size, at, size);
	message->body_size += size;
	return 0;
}

static int on_complete(http_parser *parser)
{
	((struct message *)parser->data)->complete = true;
	http_parser_pause(parser, 1);
	return 0;
}

static const http_parser_settings settings = {
	.on_url = on_url,
	.on_header_field = on_field,
	.on_header_value = on_value,
	.on_body = on_body,
	.on_message_complete = on_complete,
};

/* Receives a message. Returns 1, or 0 if the connection ends between two messages. There is no
 * pipelining. */
static int receive(sn_tcp *conn, enum http_parser_type type, char *buf, struct message *message)
{
	http_parser parser;

	http_parser_init(&parser, type);
	parser.data = message;
	for (bool begun = false; !message->complete; begun = true) {
		ssize_t n = sn_tcp_read(conn, buf, READ_SIZE);
		size_t used;

		if (n <= 0 && !begun)
			return 0;
		CHECK(n > 0);
		used = http_parser_execute(&parser, &settings, buf, (size_t)n);
		CHECK(message->complete ? used + 1 >= (size_t)n : used == (size_t)n);
	}
	return 1;
}

static const char *find(const struct message *message, const char *field)
{
	for (const struct header *header = message->headers; header; header = header->next)
		if (strcmp(header->field, field) == 0)
			return header->value;
	return NULL;
}

/* ---- the server ---- */

struct text {
	struct memory *memory;
	char *bytes;
	size_t size, room;
};

__attribute__((format(printf, 2, 3))) static void print(struct text *text, const char *format, ...)
{
	va_list list;
	int n;

	va_start(list, format);
	n = vsnprintf(text->bytes + text->size, text->room - text->size, format, list);
	va_end(list);
	CHECK(n >= 0 && (size_t)n < text->room - text->size);
	text->size += (size_t)n;
}

static struct text begin(struct memory *memory, size_t room)
{
	return (struct text){memory, allocate_bytes(memory, room), 0, room};
}

static void answer(sn_tcp *conn, struct memory *memory, const struct message *request)
{
	struct text text = begin(memory, 2048);
	time_t now = (time_t)sn_time();
	struct tm when;
	char date[64];

	CHECK(strcmp(request->url, "/") == 0 && find(request, "Host"));
	gmtime_r(&now, &when);
	strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &when);
	print(&text, "HTTP/1.1 200 OK\r\n");
	print(&text, "Date: %s\r\n", append(memory, NULL, 0, date, strlen(date)));
	print(&text, "Content-Length: %zu\r\n", strlen(BODY));
	print(&text, "Content-Type: %s\r\n\r\n", "text/plain; charset=utf-8");
	print(&text, "%s", BODY);
	CHECK(sn_tcp_write_all(conn, text.bytes, text.size, NULL) == (ssize_t)text.size);
}

static int session(void *arg)
{
	sn_tcp *conn = arg;
	struct memory memory = {0}, own = {0};
	char *buf = allocate_bytes(&own, READ_SIZE);

	for (;;) {
		struct message *request = allocate(&memory, sizeof *request);

		request->memory = &memory;
		if (!receive(conn, HTTP_REQUEST, buf, request))
			break;
		answer(conn, &memory, request);
		done_with(&memory);
	}
	forget(&memory);
	forget(&own);
	sn_tcp_close(conn);
	sn_waitgroup_done(&busy);
	return 0;
}

static int serve(void *arg)
{
	sn_tcp_listener *listener = arg;

	for (long i = 0; i < client_count; i++) {
		sn_task *task;
		sn_tcp *conn;

		CHECK(sn_tcp_accept(listener, &conn) >= 0);
		CHECK(sn_spawn(&task, session, conn, NULL) == 0);
		atomic_store(&tasks[client_count + i], task);
	}
	return 0;
}

/* ---- the clients ---- */

struct client {
	uint32_t *latencies; /* ns; from malloc(), so that collections skip them */
	size_t count, room;
};

static char address[SN_ADDRESS_MAX];
static int64_t count_from, count_to;
static struct client *clients;

static void note(struct client *client, int64_t ns)
{
	if (client->count == client->room) {
		client->room = client->room ? 2 * client->room : 1 << 14;
		client->latencies =
			realloc(client->latencies, client->room * sizeof *client->latencies);
		CHECK(client->latencies);
	}
	client->latencies[client->count++] = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

static struct message *ask(sn_tcp *conn, struct memory *memory, char *buf)
{
	struct message *response = allocate(memory, sizeof *response);
	struct text text = begin(memory, 1024);

	response->memory = memory;
	print(&text, "GET %s HTTP/1.1\r\n", append(memory, NULL, 0, "/", 1));
	print(&text, "Host: %s\r\n", append(memory, NULL, 0, address, strlen(address)));
	print(&text, "User-Agent: %s\r\n", "bench-wait");
	print(&text, "Accept-Encoding: %s\r\n\r\n", "gzip");
	CHECK(sn_tcp_write_all(conn, text.bytes, text.size, NULL) == (ssize_t)text.size);
	CHECK(receive(conn, HTTP_RESPONSE, buf, response));
	CHECK(response->body_size == strlen(BODY) &&
	      memcmp(response->body, BODY, strlen(BODY)) == 0);
	CHECK(find(response, "Date"));
	return response;
}

static int run_client(void *arg)
{
	struct client *client = arg;
	struct memory memory = {0}, own = {0};
	struct message *kept[KEPT] = {0};
	char *buf = allocate_bytes(&own, READ_SIZE);
	int64_t began;
	sn_tcp *conn;

	CHECK(sn_tcp_connect(&conn, address, 0) >= 0);
	/* Each client makes at least one request, however slow the machine is. */
	for (long i = 0; (began = sn_now()) < count_to || client->count == 0; i++) {
		struct message *response = ask(conn, &memory, buf);

#if BENCH_GC
		/* Fails if the collector has freed what a parked task refers to. */
		if (kept[i % KEPT])
			CHECK(memcmp(kept[i % KEPT]->body, BODY, strlen(BODY)) == 0);
		kept[i % KEPT] = response;
#else
		(void)response;
		(void)kept;
#endif
		done_with(&memory);
		if (began >= count_from)
			note(client, sn_now() - began);
	}
	forget(&own);
	sn_tcp_close(conn);
	sn_waitgroup_done(&busy);
	return 0;
}

/* ---- the whole ---- */

static int ascending(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return left < right ? -1 : left > right;
}

static void report(uint64_t bytes, uint64_t times)
{
	size_t n = 0, at = 0;
	uint32_t *all;

	for (long i = 0; i < client_count; i++)
		n += clients[i].count;
	CHECK(n > 0);
	all = malloc(n * sizeof *all);
	CHECK(all);
	for (long i = 0; i < client_count; i++) {
		memcpy(all + at, clients[i].latencies, clients[i].count * sizeof *all);
		at += clients[i].count;
	}
	qsort(all, n, sizeof *all, ascending);
	printf("BenchmarkHTTP/level=%s %zu %.0f ns/op", name, n, seconds * 1e9 / (double)n);
	printf(" %" PRIu32 " p50-ns %" PRIu32 " p95-ns %" PRIu32 " p99-ns %" PRIu32 " p999-ns",
	       all[n / 2], all[n * 95 / 100], all[n * 99 / 100], all[n * 999 / 1000]);
	printf(" %.0f B/op %.0f GC/s %.0f B/GC\n", (double)bytes / (double)n,
	       (double)times / seconds, times ? (double)bytes / (double)times : 0);
	free(all);
}

static int run(void *arg)
{
	struct memory memory = {0};
	long nodes = live_kib * 1024 / (long)sizeof(struct node);
	uint64_t bytes, times;
	sn_tcp_listener *listener;
	sn_task *server, *collector;

	(void)arg;
	root = grow(&memory, nodes);
	CHECK(sn_tcp_listen(&listener, "127.0.0.1:0") >= 0);
	sn_tcp_listener_address(listener, address, sizeof address);
	count_from = sn_now() + (int64_t)(warm * 1e9);
	count_to = count_from + (int64_t)(seconds * 1e9);
	sn_waitgroup_add(&busy, (int)task_count);
	CHECK(sn_spawn(&collector, run_collector, NULL, NULL) == 0);
	CHECK(sn_spawn(&server, serve, listener, NULL) == 0);
	for (long i = 0; i < client_count; i++) {
		sn_task *task;

		CHECK(sn_spawn(&task, run_client, &clients[i], NULL) == 0);
		atomic_store(&tasks[i], task);
	}
	sn_sleep_until(count_from);
	bytes = atomic_load(&allocated);
	times = atomic_load(&collections);
	sn_sleep_until(count_to);
	bytes = atomic_load(&allocated) - bytes;
	times = atomic_load(&collections) - times;
	sn_join(server, NULL);
	/* The tasks must exist for as long as the collector scans them. */
	CHECK(sn_waitgroup_wait(&busy) == 0);
	atomic_store(&ending, true);
	sn_semaphore_release(&garbage, 1);
	CHECK(sn_join(collector, NULL) == 0);
	for (long i = 0; i < task_count; i++)
		CHECK(sn_join(atomic_load(&tasks[i]), NULL) == 0);
	sn_tcp_listener_close(listener);
	CHECK(count_nodes(root) == nodes);
	report(bytes, times);
	forget(&memory);
	return 0;
}

/* The value of --NAME=VALUE, or NULL. */
static const char *option(const char *argument, const char *wanted)
{
	size_t n = strlen(wanted);

	return strncmp(argument, wanted, n) == 0 && argument[n] == '=' ? argument + n + 1 : NULL;
}

static int usage(const char *program)
{
	fprintf(stderr,
		"usage: %s [--seconds=1] [--warm=0.2] [--clients=N] [--live=KIB] [--every=KIB] "
		"[--name=NAME]\n",
		program);
	return 2;
}

int main(int argc, char **argv)
{
	const char *procs = getenv("SENNIT_PROCS");

	for (int i = 1; i < argc; i++) {
		const char *value;

		if ((value = option(argv[i], "--seconds")))
			seconds = atof(value);
		else if ((value = option(argv[i], "--warm")))
			warm = atof(value);
		else if ((value = option(argv[i], "--clients")))
			client_count = atol(value);
		else if ((value = option(argv[i], "--live")))
			live_kib = atol(value);
		else if ((value = option(argv[i], "--every")))
			every_kib = atol(value);
		else if ((value = option(argv[i], "--name")))
			name = value;
		else
			return usage(argv[0]);
	}
	if (client_count == 0)
		client_count = 4 * (procs ? atol(procs) : sysconf(_SC_NPROCESSORS_ONLN));
	if (seconds <= 0 || warm < 0 || client_count < 1 || live_kib < 0 || every_kib < 1)
		return usage(argv[0]);
	task_count = 2 * client_count;
	tasks = calloc((size_t)task_count, sizeof *tasks);
	clients = calloc((size_t)client_count, sizeof *clients);
	CHECK(tasks && clients);
#if BENCH_GC
	CHECK(sn_gc_init() == 0);
	/* Makes the heap so large that the collector never starts a collection by itself. */
	GC_expand_hp((size_t)64 << 20);
#endif
	return sn_run(run, NULL);
}
