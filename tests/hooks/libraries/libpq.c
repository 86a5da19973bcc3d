/* SPDX-License-Identifier: MIT */
/* libpq's blocking interface: WHERE is a connection string. The tasks share 100 connections. */
#include <libpq-fe.h>

#include "crowd.h"

#define CONNECTIONS 100

static sn_chan *pool;

static int open_one(void *arg)
{
	PGconn *conn = PQconnectdb(arg);

	if (PQstatus(conn) != CONNECTION_OK) {
		fprintf(stderr, "%s", PQerrorMessage(conn));
		return 1;
	}
	return sn_chan_send(pool, &conn);
}

static int open_all(struct crowd *crowd)
{
	const struct sn_task_attr attr = SN_TASK_ATTR_INIT(.flags = SN_TASK_HOOKED);
	sn_task *tasks[CONNECTIONS];
	int result, failed = 0;

	if (sn_chan_new(&pool, sizeof(PGconn *), CONNECTIONS) < 0)
		return 1;
	for (int i = 0; i < CONNECTIONS; i++)
		if (sn_spawn(&tasks[i], open_one, (void *)crowd->where, &attr) < 0)
			return 1;
	for (int i = 0; i < CONNECTIONS; i++)
		if (sn_join(tasks[i], &result) < 0 || result != 0)
			failed++;
	return failed;
}

static int query(const struct crowd *crowd, int number)
{
	char text[100], expected[20];
	PGresult *result;
	PGconn *conn;
	int right;

	(void)crowd;
	if (sn_chan_recv(pool, &conn) < 0)
		return 1;
	snprintf(text, sizeof text, "select %d * 2, pg_sleep(0.1)", number);
	snprintf(expected, sizeof expected, "%d", number * 2);
	result = PQexec(conn, text);
	right = PQresultStatus(result) == PGRES_TUPLES_OK &&
		strcmp(PQgetvalue(result, 0, 0), expected) == 0;
	if (!right)
		fprintf(stderr, "%d: %s", number, PQerrorMessage(conn));
	PQclear(result);
	return sn_chan_send(pool, &conn) < 0 || !right;
}

int main(int argc, char **argv)
{
	return crowd_main(argc, argv, (struct crowd){.job = query, .before = open_all});
}
