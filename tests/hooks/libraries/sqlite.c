/* SPDX-License-Identifier: MIT */
/*
 * SQLite: WHERE is a database, which all tasks write to and read from. It waits for other writers
 * in usleep(), and holds its connection's mutex, so that the wait blocks. If SQLite is configured
 * for one thread at a time per connection, it holds no mutex, and the wait parks.
 */
#include <sqlite3.h>

#include "crowd.h"

#define WRITES 30

static int report(sqlite3 *database, const char *what)
{
	fprintf(stderr, "%s: %s\n", what, sqlite3_errmsg(database));
	return 1;
}

static int open_database(const struct crowd *crowd, int flags, sqlite3 **database)
{
	return sqlite3_open_v2(crowd->where, database,
			       SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | flags,
			       NULL) != SQLITE_OK ||
	       sqlite3_busy_timeout(*database, 100000) != SQLITE_OK ||
	       sqlite3_exec(*database, "pragma synchronous=off", NULL, NULL, NULL) != SQLITE_OK;
}

static int create(struct crowd *crowd)
{
	sqlite3 *database;

	if (open_database(crowd, 0, &database) != 0 ||
	    sqlite3_exec(database,
			 "pragma journal_mode=wal; drop table if exists t; "
			 "create table t(task int, value int)",
			 NULL, NULL, NULL) != SQLITE_OK)
		return report(database, "create");
	return sqlite3_close(database);
}

/* The single number that a query returns, or -1. */
static int ask(sqlite3 *database, const char *query)
{
	sqlite3_stmt *statement;
	int n = -1;

	if (sqlite3_prepare_v2(database, query, -1, &statement, NULL) != SQLITE_OK)
		return -1;
	if (sqlite3_step(statement) == SQLITE_ROW)
		n = sqlite3_column_int(statement, 0);
	return sqlite3_finalize(statement) == SQLITE_OK ? n : -1;
}

static int use(sqlite3 *database, int number)
{
	char text[100];

	for (int i = 1; i <= WRITES; i++) {
		snprintf(text, sizeof text, "insert into t values(%d, %d)", number, i);
		if (sqlite3_exec(database, text, NULL, NULL, NULL) != SQLITE_OK)
			return report(database, "insert");
		snprintf(text, sizeof text, "select sum(value) from t where task = %d", number);
		if (ask(database, text) != i * (i + 1) / 2)
			return report(database, "sum");
	}
	return 0;
}

static int work(const struct crowd *crowd, int number)
{
	sqlite3 *database;
	int failed;

	if (open_database(crowd, number % 2 ? SQLITE_OPEN_NOMUTEX : SQLITE_OPEN_FULLMUTEX,
			  &database) != 0)
		return report(database, "open");
	failed = use(database, number);
	return sqlite3_close(database) != SQLITE_OK || failed;
}

int main(int argc, char **argv)
{
	return crowd_main(argc, argv,
			  (struct crowd){.job = work, .before = create, .stack_size = 256 << 10});
}
