/* SPDX-License-Identifier: MIT */
/*
 * MariaDB's client: WHERE is a port. Each task makes a connection, and three queries of 0.1 s. The
 * asynchronous interface is that of the functions which end with _start() and _cont().
 */
#include <mysql.h>

#include "crowd.h"
#include "loop.h"

#define QUERIES 3

static int fail(MYSQL *mysql, const char *what)
{
	fprintf(stderr, "%s: %s\n", what, mysql_error(mysql));
	mysql_close(mysql);
	return 1;
}

static void write_query(char text[100], int number)
{
	snprintf(text, 100, "select sleep(0.1), %d", number);
}

/* Whether the answer is the number. Frees it. */
static int is_right(MYSQL_RES *result, int number)
{
	MYSQL_ROW row = mysql_fetch_row(result);
	char expected[20];
	int right;

	snprintf(expected, sizeof expected, "%d", number);
	right = row && strcmp(row[1], expected) == 0;
	mysql_free_result(result);
	return right;
}

static int work(const struct crowd *crowd, int number)
{
	MYSQL *mysql = mysql_init(NULL);
	char text[100];

	if (!mysql_real_connect(mysql, "127.0.0.1", "root", "", NULL, (unsigned)atoi(crowd->where),
				NULL, 0))
		return fail(mysql, "connect");
	for (int i = 0; i < QUERIES; i++) {
		MYSQL_RES *result;

		write_query(text, number + i);
		if (mysql_query(mysql, text) != 0 || !(result = mysql_store_result(mysql)))
			return fail(mysql, text);
		if (!is_right(result, number + i))
			return fail(mysql, "another answer");
	}
	mysql_close(mysql);
	return 0;
}

/* ---- the asynchronous interface ---- */

static struct client {
	struct loop_watch watch;
	MYSQL *mysql;
	int number, queries;
	enum { CONNECTS, ASKS, STORES, CLOSES } state;
	char text[100];
	/* What the calls return when they end. */
	MYSQL *connected;
	int failed;
	MYSQL_RES *result;
} clients[CROWD_MOST];

static int port, clients_left, clients_failed;

/* Begins the call of the state, or continues it after an event. Returns what it waits for; 0: it
 * has ended. */
static int call(struct client *client, int event)
{
	MYSQL *mysql = client->mysql;

	switch (client->state) {
	case CONNECTS:
		return event ? mysql_real_connect_cont(&client->connected, mysql, event)
			     : mysql_real_connect_start(&client->connected, mysql, "127.0.0.1",
							"root", "", NULL, (unsigned)port, NULL, 0);
	case ASKS:
		return event ? mysql_real_query_cont(&client->failed, mysql, event)
			     : mysql_real_query_start(&client->failed, mysql, client->text,
						      strlen(client->text));
	case STORES:
		return event ? mysql_store_result_cont(&client->result, mysql, event)
			     : mysql_store_result_start(&client->result, mysql);
	default:
		return event ? mysql_close_cont(mysql, event) : mysql_close_start(mysql);
	}
}

/* Whether the state's call, which has ended, has succeeded. */
static int succeeded(struct client *client)
{
	switch (client->state) {
	case CONNECTS:
		return client->connected != NULL;
	case ASKS:
		return !client->failed;
	case STORES:
		return client->result &&
		       is_right(client->result, client->number + client->queries++);
	default:
		return 1;
	}
}

/* Goes to the next state after a call has ended. Returns 0 if the client is done. */
static int advance(struct client *client)
{
	const int right = succeeded(client);

	if (!right)
		clients_failed += fail(client->mysql, "a call");
	if (!right || client->state == CLOSES) {
		clients_left--;
		return 0;
	}
	if (client->state == ASKS) {
		client->state = STORES;
	} else if (client->queries == QUERIES) {
		client->state = CLOSES;
		loop_wait_for(&client->watch, client->watch.fd, 0);
	} else {
		client->state = ASKS;
		write_query(client->text, client->number + client->queries);
	}
	return 1;
}

static void go_on(struct client *client, int event)
{
	int wanted;

	while ((wanted = call(client, event)) == 0) {
		if (!advance(client))
			return;
		event = 0;
	}
	/* There are no time limits. */
	loop_wait_for(&client->watch, mysql_get_socket(client->mysql),
		      (wanted & MYSQL_WAIT_READ ? EPOLLIN : 0u) |
			      (wanted & MYSQL_WAIT_WRITE ? EPOLLOUT : 0u) |
			      (wanted & MYSQL_WAIT_EXCEPT ? EPOLLPRI : 0u));
}

static void ready(struct loop_watch *watch, uint32_t events)
{
	go_on((struct client *)watch, (events & ~(uint32_t)EPOLLOUT ? MYSQL_WAIT_READ : 0) |
					      (events & EPOLLOUT ? MYSQL_WAIT_WRITE : 0));
}

static int work_all(const struct crowd *crowd)
{
	port = atoi(crowd->where);
	clients_left = crowd->tasks;
	for (int i = 0; i < crowd->tasks; i++) {
		clients[i] = (struct client){
			.watch.ready = ready, .mysql = mysql_init(NULL), .number = i};
		mysql_options(clients[i].mysql, MYSQL_OPT_NONBLOCK, NULL);
		go_on(&clients[i], 0);
	}
	loop_run(&clients_left, NULL);
	return clients_failed;
}

int main(int argc, char **argv)
{
	if (mysql_library_init(0, NULL, NULL) != 0)
		return 1;
	return crowd_main(argc, argv,
			  (struct crowd){.job = work, .all = work_all, .stack_size = 256 << 10});
}
