/* SPDX-License-Identifier: MIT */
/*
 * Queries to PostgreSQL, many at a time, with libpq's asynchronous calls: a task and a connection
 * each, and no thread for any of them.
 *
 *	example-postgres 'host=127.0.0.1 user=postgres' 'select now(), pg_sleep(1)' 50
 *
 * libpq says whether it waits for its socket to be readable or writable, and sn_fd_wait() waits for
 * that. Connecting may use another socket in each step, so the code asks for the socket each time.
 * PQconnectStart() resolves a name itself, and blocks in it: the thread's processor then goes to
 * other tasks. hostaddr= avoids that.
 */
#include <errno.h>
#include <libpq-fe.h>
#include <sennit/sennit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_MAX 10000000000ll
#define QUERY_MAX 60000000000ll

static const char *where, *query;

/* Each of these functions returns 0, or an error of the wait. PQerrorMessage() has the errors of
 * libpq. */
static int connect_to(PGconn *conn, int64_t deadline)
{
	PostgresPollingStatusType next = PGRES_POLLING_WRITING;

	while (PQstatus(conn) != CONNECTION_BAD && next != PGRES_POLLING_OK &&
	       next != PGRES_POLLING_FAILED) {
		int events = sn_fd_wait(PQsocket(conn),
					next == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline);

		if (events < 0)
			return events;
		next = PQconnectPoll(conn);
	}
	return 0;
}

/* Sends the query. A large one goes in pieces, and the server may send something between them. */
static int flush(PGconn *conn, int64_t deadline)
{
	int left;

	while ((left = PQflush(conn)) > 0) {
		int events = sn_fd_wait(PQsocket(conn), POLLIN | POLLOUT, deadline);

		if (events < 0)
			return events;
		if (events & POLLIN && !PQconsumeInput(conn))
			return 0;
	}
	return 0;
}

/* Waits until the next result can be read without blocking. */
static int await_result(PGconn *conn, int64_t deadline)
{
	while (PQisBusy(conn)) {
		int events = sn_fd_wait(PQsocket(conn), POLLIN, deadline);

		if (events < 0)
			return events;
		if (!PQconsumeInput(conn))
			return 0;
	}
	return 0;
}

/* Counts the rows of all results. */
static int run_query(PGconn *conn, int64_t deadline, int *rows)
{
	PGresult *result;
	int err;

	*rows = 0;
	if (PQsetnonblocking(conn, 1) < 0 || !PQsendQuery(conn, query))
		return 0;
	err = flush(conn, deadline);
	while (err == 0) {
		err = await_result(conn, deadline);
		result = err == 0 ? PQgetResult(conn) : NULL;
		if (!result)
			break;
		*rows += PQntuples(result);
		PQclear(result);
	}
	return err;
}

static int ask(void *arg)
{
	PGconn *conn = PQconnectStart(where);
	int rows = 0, err;

	(void)arg;
	err = conn ? connect_to(conn, sn_now() + CONNECT_MAX) : -ENOMEM;
	if (err == 0 && PQstatus(conn) == CONNECTION_OK)
		err = run_query(conn, sn_now() + QUERY_MAX, &rows);
	if (err < 0)
		fprintf(stderr, "%s\n", strerror(-err));
	else if (*PQerrorMessage(conn))
		fputs(PQerrorMessage(conn), stderr); /* ends with a line feed */
	err = err < 0 || *PQerrorMessage(conn) ? 1 : 0;
	PQfinish(conn);
	if (err == 0)
		printf("%d rows\n", rows);
	return err;
}

/* Returns how many queries failed. */
static int ask_all(void *arg)
{
	size_t n = *(size_t *)arg, spawned;
	sn_task **tasks = calloc(n, sizeof *tasks);
	int failed, result;

	for (spawned = 0; tasks && spawned < n; spawned++)
		if (sn_spawn(&tasks[spawned], ask, NULL, NULL) < 0)
			break;
	if (spawned < n)
		fprintf(stderr, "out of memory: %zu queries of %zu were begun\n", spawned, n);
	failed = (int)(n - spawned);
	for (size_t i = 0; i < spawned; i++) {
		sn_join(tasks[i], &result);
		failed += result;
	}
	free(tasks);
	return failed;
}

int main(int argc, char **argv)
{
	char *end = NULL;
	size_t n = argc > 3 ? strtoul(argv[3], &end, 10) : 1;
	int failed;

	if (argc < 3 || argc > 4 || (end && *end) || n == 0 || n > 100000) {
		fprintf(stderr, "usage: %s CONNECTION QUERY [TIMES]\n", argv[0]);
		return 2;
	}
	where = argv[1];
	query = argv[2];
	failed = sn_run(ask_all, &n);
	if (failed < 0)
		fprintf(stderr, "%s: %s\n", argv[0], strerror(-failed));
	return failed != 0;
}
