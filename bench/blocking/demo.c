/* SPDX-License-Identifier: MIT */
/*
 * How C libraries that block, and code that computes, affect the other tasks of a program.
 *
 *	bench-blocking-demo blocking|hogs [seconds, default 5] [PostgreSQL connection string]
 *
 * blocking: 200 tasks call usleep(), read() on a pipe, flock(), getaddrinfo(), SQLite and libpq in
 * turn, without brackets. hogs: two tasks per processor compute forever, without any call. Beside
 * them 1,000 tasks have a heartbeat of 10 ms each, and the program prints how late the beats were:
 * first with leases, then without (SENNIT_LEASES=0). A beat that is still missing at the end counts
 * with its lateness until that time.
 *
 * The calls really block: a thread of the program writes to the pipes every 20 ms, each flock()
 * holds the file for 2 ms, a name server in this process takes 50 ms to answer, the database files
 * are locked by other tasks, and PostgreSQL sleeps 50 ms. Without a connection string PostgreSQL is
 * left out, and the program reports that; scripts/demo-blocking starts one. With --check the
 * program exits with 1 unless the beats continued with leases, and stopped without.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <resolv.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <sennit/sennit.h>

#if HAVE_SQLITE
#	include <sqlite3.h>
#endif
#if HAVE_LIBPQ
#	include <libpq-fe.h>
#endif

#define BLOCKERS 200
#define DATABASES 20
#define HEARTS 1000
#define BEAT_NS 10000000
#define START_NS 200000000
#define MS 1000000

/* The stack size of tasks that call libraries. Some need 100 KiB: getaddrinfo() alone may take
 * 64. */
#define BLOCKER_STACK ((size_t)512 << 10)

/* ---- how late ---- */

/* Buckets of 0.1 ms up to 1 s, then of 10 ms. */
#define FINE 10000
#define COARSE 10000
struct lateness {
	_Atomic uint64_t beats;
	_Atomic uint32_t buckets[FINE + COARSE];
	_Atomic int64_t worst, when; /* the greatest lateness, and its time */
	_Atomic int64_t worst_later; /* the same without the start, when all 200 block */
};

static struct lateness of_tasks, of_thread;
static _Atomic int64_t began, end; /* of a run, as of sn_now() */

static void raise_to(_Atomic int64_t *most, int64_t ns)
{
	int64_t seen = *most;

	while (ns > seen && !atomic_compare_exchange_weak(most, &seen, ns))
		;
}

static void record(struct lateness *late, int64_t ns, int64_t now)
{
	int64_t worst = late->worst, bucket = ns / 100000;

	if (bucket >= FINE) {
		bucket = FINE + (ns - (int64_t)FINE * 100000) / 10000000;
		if (bucket >= FINE + COARSE)
			bucket = FINE + COARSE - 1;
	}
	late->beats++;
	late->buckets[bucket]++;
	if (now - began > START_NS)
		raise_to(&late->worst_later, ns);
	while (ns > worst) {
		if (atomic_compare_exchange_weak(&late->worst, &worst, ns)) {
			late->when = now;
			break;
		}
	}
}

/* The share of beats that were later than a limit. */
static double late_permille(struct lateness *late, int ms)
{
	uint64_t seen = 0;

	for (int i = ms * 10; i < FINE + COARSE; i++)
		seen += late->buckets[i];
	return late->beats ? 1000.0 * (double)seen / (double)late->beats : 0;
}

static double quantile_ms(struct lateness *late, double q)
{
	uint64_t seen = 0, wanted = (uint64_t)(q * (double)late->beats);

	for (int i = 0; i < FINE + COARSE; i++) {
		seen += late->buckets[i];
		if (seen > wanted)
			return i < FINE ? (i + 1) * 0.1 : FINE * 0.1 + (i + 1 - FINE) * 10.0;
	}
	return 0;
}

static void print(const char *what, struct lateness *late, double wanted)
{
	printf("%-15s beats %7" PRIu64 " of %7.0f   worst %6.1f ms after %.2f s, %5.1f ms past the "
	       "first %.1f s   over 25 ms %.3f per mille   p99 %.1f ms   p50 %.1f ms\n",
	       what, late->beats, wanted, (double)late->worst / 1e6,
	       (double)(late->when - began) / 1e9, (double)late->worst_later / 1e6, START_NS / 1e9,
	       late_permille(late, 25), quantile_ms(late, 0.99), quantile_ms(late, 0.5));
}

/* ---- state of a run ---- */

static double seconds = 5;
static const char *conninfo;
static char directory[] = "/tmp/sennit-demo-XXXXXX";
static int name_server_port;
static _Atomic uint64_t calls[6], errors[6];
static _Atomic bool helpers_stop;
static const char *const kinds[6] = {"usleep",      "read of a pipe", "flock",
				     "getaddrinfo", "SQLite",         "libpq"};

static bool over(void)
{
	return sn_now() >= end;
}

static int heart(void *arg)
{
	/* Spread over the period, as real timers are. */
	int64_t next = began + BEAT_NS + (intptr_t)arg * (BEAT_NS / HEARTS);

	while (next < end) {
		int64_t now;

		sn_sleep_until(next);
		now = sn_now();
		record(&of_tasks, now > next ? now - next : 0, now);
		/* Beats that were missed are not made up for. */
		while (next <= now)
			next += BEAT_NS;
	}
	return 0;
}

/* ---- blocking calls ---- */

struct blocker {
	int number;
	int pipe[2];
#if HAVE_SQLITE
	sqlite3 *database;
#endif
#if HAVE_LIBPQ
	PGconn *connection;
#endif
};

static struct blocker blockers[BLOCKERS];

static int call_usleep(struct blocker *self)
{
	return usleep(20000 + (unsigned)self->number * 100);
}

static int call_read(struct blocker *self)
{
	char c;

	return read(self->pipe[0], &c, 1) == 1 ? 0 : -1;
}

static int call_flock(struct blocker *self)
{
	char path[64];
	int fd, result;

	(void)self;
	snprintf(path, sizeof path, "%s/lock", directory);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	result = flock(fd, LOCK_EX);
	usleep(2000);
	close(fd);
	return result;
}

static int call_getaddrinfo(struct blocker *self)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
	char name[64];
	int result;

	/* The resolver's state is per thread, and this task may run on a different thread now. */
	res_init();
	_res.nscount = 1;
	_res.nsaddr_list[0].sin_family = AF_INET;
	_res.nsaddr_list[0].sin_port = htons((uint16_t)name_server_port);
	_res.nsaddr_list[0].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	_res.ndots = 0;
	snprintf(name, sizeof name, "host%d.example.", self->number);
	result = getaddrinfo(name, NULL, &hints, &found);
	if (result == 0)
		freeaddrinfo(found);
	return result;
}

#if HAVE_SQLITE
static int call_sqlite(struct blocker *self)
{
	return sqlite3_exec(
		       self->database,
		       "BEGIN IMMEDIATE; INSERT INTO visits VALUES(1, julianday('now')); COMMIT",
		       NULL, NULL, NULL) == SQLITE_OK
		       ? 0
		       : -1;
}
#endif

#if HAVE_LIBPQ
static int call_libpq(struct blocker *self)
{
	PGresult *result = PQexec(self->connection, "SELECT pg_sleep(0.05)");
	bool good = PQresultStatus(result) == PGRES_TUPLES_OK;

	PQclear(result);
	return good ? 0 : -1;
}
#endif

/* Opens what the calls need before the heartbeat is measured: otherwise the start of 200
 * processes by PostgreSQL would be measured too. */
static int prepare(void *arg)
{
	struct blocker *self = arg;

#if HAVE_SQLITE
	char path[64];

	/* Ten tasks share a file, and wait for each other's locks. */
	snprintf(path, sizeof path, "%s/db%d", directory, self->number % DATABASES);
	if (sqlite3_open(path, &self->database) != SQLITE_OK ||
	    sqlite3_busy_timeout(self->database, 60000) != SQLITE_OK ||
	    sqlite3_exec(self->database,
			 "PRAGMA synchronous=OFF;"
			 "CREATE TABLE IF NOT EXISTS visits(task INTEGER, at REAL)",
			 NULL, NULL, NULL) != SQLITE_OK) {
		fprintf(stderr, "%s: %s\n", path, sqlite3_errmsg(self->database));
		exit(1);
	}
#endif
#if HAVE_LIBPQ
	if (conninfo) {
		self->connection = PQconnectdb(conninfo);
		if (PQstatus(self->connection) != CONNECTION_OK) {
			fprintf(stderr, "%s", PQerrorMessage(self->connection));
			exit(1);
		}
	}
#endif
	(void)self;
	return 0;
}

typedef int call(struct blocker *self);

static call *const kind_calls[6] = {
	call_usleep, call_read, call_flock, call_getaddrinfo,
#if HAVE_SQLITE
	call_sqlite,
#else
	NULL,
#endif
#if HAVE_LIBPQ
	call_libpq,
#else
	NULL,
#endif
};

static bool has_kind(int kind)
{
	return kind_calls[kind] && (kind != 5 || conninfo);
}

static int blocker(void *arg)
{
	struct blocker *self = arg;

	for (int turn = self->number; !over(); turn++) {
		int kind = turn % 6;

		if (!has_kind(kind))
			continue;
		if (kind_calls[kind](self) == 0)
			calls[kind]++;
		else
			errors[kind]++;
		/* Pauses like a task that serves requests, and waits for the next one. */
		if (kind == 5)
			sn_sleep(20 * MS);
	}
	return 0;
}

/* Never calls sennit, like a foreign library that computes. */
static int hog(void *arg)
{
	struct timespec now;

	(void)arg;
	do {
		for (int i = 0; i < 10000; i++)
			__asm__ volatile("");
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec * (int64_t)1000000000 + now.tv_nsec < end);
	return 0;
}

/* ---- the program's own threads, which leases do not affect ---- */

/* The same heartbeat on a thread, to measure how late the machine lets any thread run. */
static void *thread_heart(void *arg)
{
	int64_t next = sn_now() + BEAT_NS;

	(void)arg;
	while (!helpers_stop) {
		struct timespec ts = {.tv_sec = (time_t)(next / 1000000000),
				      .tv_nsec = (long)(next % 1000000000)};
		int64_t now;

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
		now = sn_now();
		if (began && now > began && next < end)
			record(&of_thread, now - next, now);
		while (next <= now)
			next += BEAT_NS;
	}
	return NULL;
}

static void *pipe_writer(void *arg)
{
	(void)arg;
	while (!helpers_stop) {
		usleep(20000);
		for (int i = 0; i < BLOCKERS; i++)
			if (write(blockers[i].pipe[1], "x", 1) < 0 && errno != EAGAIN)
				perror("write");
	}
	return NULL;
}

/*
 * Answers each query after 50 ms with 127.0.0.1. The answer is the query with the flags and counts
 * of an answer, followed by the record.
 */
static void *name_server(void *arg)
{
	static const unsigned char record[] = {0xc0, 12, 0, 1, 0,   1, 0, 0,
					       0,    0,  0, 4, 127, 0, 0, 1};
	static struct {
		unsigned char packet[512];
		size_t size;
		struct sockaddr_in from;
		int64_t due;
	} waiting[1024];
	unsigned first = 0, next = 0;
	int fd = (int)(intptr_t)arg;

	while (!helpers_stop) {
		struct pollfd pollfd = {.fd = fd, .events = POLLIN};
		int timeout = 100;

		if (first != next) {
			int64_t left = waiting[first % 1024].due - sn_now();

			timeout = left > 0 ? (int)(left / MS) + 1 : 0;
		}
		if (poll(&pollfd, 1, timeout) > 0 && next - first < 1024) {
			socklen_t length = sizeof waiting[0].from;
			ssize_t n =
				recvfrom(fd, waiting[next % 1024].packet, 480, 0,
					 (struct sockaddr *)&waiting[next % 1024].from, &length);

			if (n >= 12) {
				waiting[next % 1024].size = (size_t)n;
				waiting[next % 1024].due = sn_now() + 50 * (int64_t)MS;
				next++;
			}
		}
		while (first != next && waiting[first % 1024].due <= sn_now()) {
			unsigned char *packet = waiting[first % 1024].packet;
			size_t size = 12;

			/* The type and class follow the name. The rest (EDNS) is dropped. */
			while (size < waiting[first % 1024].size && packet[size])
				size += packet[size] + 1u;
			size += 5;
			packet[2] = 0x81;
			packet[3] = 0x80;
			memset(packet + 6, 0, 6);
			packet[7] = 1;
			memcpy(packet + size, record, sizeof record);
			sendto(fd, packet, size + sizeof record, 0,
			       (struct sockaddr *)&waiting[first % 1024].from,
			       sizeof waiting[0].from);
			first++;
		}
	}
	return NULL;
}

static int name_server_open(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof at;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &length) < 0) {
		perror("name server");
		exit(1);
	}
	name_server_port = ntohs(at.sin_port);
	return fd;
}

/* ---- one run ---- */

static void start(int n, sn_fn *fn, size_t stack, const char *name, sn_task **tasks,
		  void *(*argument)(int))
{
	struct sn_task_attr attr = SN_TASK_ATTR_INIT(.name = name, .stack_size = stack);

	for (int i = 0; i < n; i++) {
		int err = sn_spawn(&tasks[i], fn, argument(i), &attr);

		if (err < 0) {
			fprintf(stderr, "task: %s\n", strerror(-err));
			exit(1);
		}
	}
}

static void *number_argument(int i)
{
	return (void *)(intptr_t)i;
}

static void *blocker_argument(int i)
{
	return &blockers[i];
}

static bool hogs;

static int run(void *arg)
{
	static sn_task *hearts[HEARTS], *others[BLOCKERS];
	struct sn_run_stats stats = SN_RUN_STATS_INIT();
	int n = BLOCKERS;

	(void)arg;
	sn_run_stats(&stats);
	if (hogs) {
		n = 2 * (int)stats.processors;
	} else {
		start(n, prepare, BLOCKER_STACK, "prepare", others, blocker_argument);
		for (int i = 0; i < n; i++)
			sn_join(others[i], NULL);
	}
	began = sn_now();
	end = began + (int64_t)(seconds * 1e9);
	start(HEARTS, heart, 0, "heart", hearts, number_argument);
	if (hogs)
		start(n, hog, 0, "hog", others, number_argument);
	else
		start(n, blocker, BLOCKER_STACK, "blocker", others, blocker_argument);
	for (int i = 0; i < HEARTS; i++)
		sn_join(hearts[i], NULL);
	for (int i = 0; i < n; i++)
		sn_join(others[i], NULL);
	sn_run_stats(&stats);
	print(getenv("SENNIT_LEASES") ? "leases off:" : "leases on:", &of_tasks,
	      HEARTS * seconds * 1e9 / BEAT_NS);
	print("  an OS thread:", &of_thread, seconds * 1e9 / BEAT_NS);
	printf("               revocations %" PRIu64 "\n", stats.revocations);
	if (!hogs) {
		printf("               calls:");
		for (int i = 0; i < 6; i++)
			printf("%s %s %" PRIu64, i ? "," : "", kinds[i], calls[i]);
		printf("\n");
		for (int i = 0; i < 6; i++)
			if (errors[i])
				printf("               %s: %" PRIu64 " FAILED\n", kinds[i],
				       errors[i]);
	}
	fflush(stdout);
	return 0;
}

static void run_once(void)
{
	int err;

	memset(&of_tasks, 0, sizeof of_tasks);
	memset(&of_thread, 0, sizeof of_thread);
	memset(calls, 0, sizeof calls);
	memset(errors, 0, sizeof errors);
	err = sn_run(run, NULL);
	if (err < 0) {
		fprintf(stderr, "%s\n", strerror(-err));
		exit(1);
	}
	for (int i = 0; i < BLOCKERS; i++) {
#if HAVE_SQLITE
		sqlite3_close(blockers[i].database);
		blockers[i].database = NULL;
#endif
#if HAVE_LIBPQ
		PQfinish(blockers[i].connection);
		blockers[i].connection = NULL;
#endif
	}
}

static void clean_up(void)
{
	char path[64];

	for (int i = 0; i < DATABASES; i++) {
		snprintf(path, sizeof path, "%s/db%d", directory, i);
		unlink(path);
		snprintf(path, sizeof path, "%s/db%d-journal", directory, i);
		unlink(path);
	}
	snprintf(path, sizeof path, "%s/lock", directory);
	unlink(path);
	rmdir(directory);
}

static int usage(const char *program)
{
	fprintf(stderr, "usage: %s [--check] blocking|hogs [seconds] [connection string]\n",
		program);
	return 2;
}

int main(int argc, char **argv)
{
	const char *program = argv[0];
	bool check = argc > 1 && strcmp(argv[1], "--check") == 0;
	pthread_t threads[3];
	double with_leases, without;

	argv += check;
	argc -= check;
	if (argc < 2 || argc > 4 ||
	    (strcmp(argv[1], "blocking") != 0 && strcmp(argv[1], "hogs") != 0))
		return usage(program);
	hogs = strcmp(argv[1], "hogs") == 0;
	if (argc > 2 && (seconds = strtod(argv[2], NULL)) <= 0)
		return usage(program);
	conninfo = argc > 3 ? argv[3] : NULL;
	if (!mkdtemp(directory)) {
		perror(directory);
		return 1;
	}
	atexit(clean_up);
	for (int i = 0; i < BLOCKERS; i++) {
		blockers[i].number = i;
		if (pipe2(blockers[i].pipe, O_CLOEXEC) < 0 ||
		    fcntl(blockers[i].pipe[1], F_SETFL, O_NONBLOCK) < 0) {
			perror("pipe");
			return 1;
		}
	}
	setenv("SENNIT_PROCS", "2", 0);
	pthread_create(&threads[0], NULL, pipe_writer, NULL);
	pthread_create(&threads[2], NULL, thread_heart, NULL);
	pthread_create(&threads[1], NULL, name_server, (void *)(intptr_t)name_server_open());
	if (hogs) {
		printf("%d tasks with a heartbeat of %d ms beside two that compute forever on "
		       "each of %s "
		       "processors\n",
		       HEARTS, BEAT_NS / MS, getenv("SENNIT_PROCS"));
	} else {
		printf("%d tasks with a heartbeat of %d ms beside %d that block in plain calls, on "
		       "%s "
		       "processors\n",
		       HEARTS, BEAT_NS / MS, BLOCKERS, getenv("SENNIT_PROCS"));
		for (int i = 0; i < 6; i++)
			if (!has_kind(i))
				printf("*** WITHOUT %s: %s ***\n", kinds[i],
				       kind_calls[i] ? "no connection string"
						     : "not built in, its library was missing");
	}
	fflush(stdout);
	unsetenv("SENNIT_LEASES");
	run_once();
	with_leases = (double)of_tasks.beats;
	setenv("SENNIT_LEASES", "0", 1);
	run_once();
	without = (double)of_tasks.beats;
	helpers_stop = true;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	/* The bounds allow for busy machines, because the results of the two runs differ by
	 * orders of magnitude. */
	if (check &&
	    (with_leases < 0.05 * HEARTS * seconds * 1e9 / BEAT_NS || without > with_leases / 2)) {
		fprintf(stderr, "the heartbeat did not go on with leases, or did without\n");
		return 1;
	}
	return 0;
}
