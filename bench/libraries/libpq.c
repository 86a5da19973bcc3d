/* SPDX-License-Identifier: MIT */
/*
 * libpq: WHERE is a connection string. N queries of 0.1 s over 100 connections that are opened
 * before. The asynchronous interface is PQsendQuery() and PQconsumeInput().
 */
#include <libpq-fe.h>

#include "loop.h"
#include "ways.h"

#define CONNECTIONS 100

static PGconn *all[CONNECTIONS];
static sn_chan *pool; /* of free connections; threads use a stack instead */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t returned = PTHREAD_COND_INITIALIZER;
static PGconn *unused[CONNECTIONS];
static int n_unused;

static void give(const struct ways *ways, PGconn *conn)
{
	if (ways->tasks) {
		CHECK(sn_chan_send(pool, &conn) == 0);
		return;
	}
	pthread_mutex_lock(&mutex);
	unused[n_unused++] = conn;
	pthread_cond_signal(&returned);
	pthread_mutex_unlock(&mutex);
}

static PGconn *take(const struct ways *ways)
{
	PGconn *conn;

	if (ways->tasks) {
		CHECK(sn_chan_recv(pool, &conn) == 0);
		return conn;
	}
	pthread_mutex_lock(&mutex);
	while (n_unused == 0)
		pthread_cond_wait(&returned, &mutex);
	conn = unused[--n_unused];
	pthread_mutex_unlock(&mutex);
	return conn;
}

static void open_all(const struct ways *ways)
{
	if (ways->tasks)
		CHECK(sn_chan_new(&pool, sizeof(PGconn *), CONNECTIONS) == 0);
	for (int i = 0; i < CONNECTIONS; i++) {
		all[i] = PQconnectdb(ways->where);
		CHECK(PQstatus(all[i]) == CONNECTION_OK);
		give(ways, all[i]);
	}
}

static const char *text_of(int i)
{
	static _Thread_local char text[100];

	snprintf(text, sizeof text, "select %d * 2, pg_sleep(0.1)", i);
	return text;
}

static void check(PGresult *result, int i)
{
	CHECK(PQresultStatus(result) == PGRES_TUPLES_OK && atoi(PQgetvalue(result, 0, 0)) == i * 2);
	PQclear(result);
}

static void query(const struct ways *ways, int i)
{
	PGconn *conn = take(ways);

	check(PQexec(conn, text_of(i)), i);
	give(ways, conn);
}

static struct asked {
	struct loop_watch watch;
	PGconn *conn;
	int query;
} asked[CONNECTIONS];

static int begun, left, most;

/* Begins the connection's next query, if one is left. */
static void begin_next(struct asked *on)
{
	on->query = begun;
	if (begun == most) {
		loop_wait_for(&on->watch, PQsocket(on->conn), 0);
		return;
	}
	begun++;
	CHECK(PQsendQuery(on->conn, text_of(on->query)) == 1 && PQflush(on->conn) == 0);
	loop_wait_for(&on->watch, PQsocket(on->conn), EPOLLIN);
}

static void ready(struct loop_watch *watch, uint32_t events)
{
	struct asked *on = (struct asked *)watch;

	(void)events;
	CHECK(PQconsumeInput(on->conn) == 1);
	if (PQisBusy(on->conn))
		return;
	check(PQgetResult(on->conn), on->query);
	CHECK(PQgetResult(on->conn) == NULL);
	left--;
	begin_next(on);
}

static void query_all(const struct ways *ways)
{
	most = left = ways->n;
	for (int c = 0; c < CONNECTIONS; c++) {
		asked[c] = (struct asked){.watch.ready = ready, .conn = all[c]};
		begin_next(&asked[c]);
	}
	loop_run(&left, NULL);
}

int main(int argc, char **argv)
{
	return ways_main(argc, argv,
			 (struct ways){.prepare = open_all, .job = query, .all = query_all});
}
