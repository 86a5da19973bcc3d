/* SPDX-License-Identifier: MIT */
/* MariaDB's client: WHERE is a port. */
#include <mysql.h>

#include "crowd.h"

static int fail(MYSQL *mysql, const char *what)
{
	fprintf(stderr, "%s: %s\n", what, mysql_error(mysql));
	mysql_close(mysql);
	return 1;
}

static int work(const struct crowd *crowd, int number)
{
	MYSQL *mysql = mysql_init(NULL);
	char text[100], expected[20];

	if (!mysql_real_connect(mysql, "127.0.0.1", "root", "", NULL, (unsigned)atoi(crowd->where),
				NULL, 0))
		return fail(mysql, "connect");
	for (int i = 0; i < 3; i++) {
		MYSQL_RES *result;
		MYSQL_ROW row;
		int right;

		snprintf(text, sizeof text, "select sleep(0.1), %d", number + i);
		snprintf(expected, sizeof expected, "%d", number + i);
		if (mysql_query(mysql, text) != 0 || !(result = mysql_store_result(mysql)))
			return fail(mysql, text);
		row = mysql_fetch_row(result);
		right = row && strcmp(row[1], expected) == 0;
		mysql_free_result(result);
		if (!right)
			return fail(mysql, "another answer");
	}
	mysql_close(mysql);
	return 0;
}

int main(int argc, char **argv)
{
	if (mysql_library_init(0, NULL, NULL) != 0)
		return 1;
	return crowd_main(argc, argv, (struct crowd){.job = work, .stack_size = 256 << 10});
}
