/* SPDX-License-Identifier: MIT */
/*
 * libcups as a client of HTTP: WHERE is a port. The server answers /reply/TEXT with TEXT, and
 * resets the connection for /reset, both after a while. httpGets() sets errno, waits in poll(),
 * reads, and compares errno with the error of the read.
 */
#include <cups/http.h>
#include <errno.h>

#include "crowd.h"

#define ROUNDS 3
#define LIMIT_MS 60000

static int fail(http_t *http, int number, const char *what)
{
	fprintf(stderr, "%d: %s: %s\n", number, what,
		http ? strerror(httpError(http)) : "no connection");
	httpClose(http);
	return 1;
}

/* Returns the status of the answer. */
static http_status_t get(http_t *http, const char *path)
{
	http_status_t status = HTTP_STATUS_ERROR;

	if (httpGet(http, path) != 0)
		return status;
	do
		status = httpUpdate(http);
	while (status == HTTP_STATUS_CONTINUE);
	return status;
}

/* Whether the server sends the text back. */
static int is_answered(http_t *http, int number, int round)
{
	char path[64], buf[64];
	ssize_t got;
	size_t n = 0;

	snprintf(path, sizeof path, "/reply/%d-%d", number, round);
	if (get(http, path) != HTTP_STATUS_OK)
		return 0;
	while (n < sizeof buf && (got = httpRead2(http, buf + n, sizeof buf - n)) > 0)
		n += (size_t)got;
	return n == strlen(path + 7) && memcmp(buf, path + 7, n) == 0;
}

static int work(const struct crowd *crowd, int number)
{
	http_t *http = httpConnect2("127.0.0.1", atoi(crowd->where), NULL, AF_INET,
				    HTTP_ENCRYPTION_NEVER, 1, LIMIT_MS, NULL);

	if (!http)
		return fail(http, number, "connect");
	for (int i = 0; i < ROUNDS; i++) {
		if (!is_answered(http, number, i))
			return fail(http, number, "reply");
		if (get(http, "/reset") != HTTP_STATUS_ERROR || httpError(http) != ECONNRESET)
			return fail(http, number, "not reset");
		if (httpReconnect2(http, LIMIT_MS, NULL) != 0)
			return fail(http, number, "reconnect");
	}
	httpClose(http);
	return 0;
}

int main(int argc, char **argv)
{
	httpInitialize();
	return crowd_main(argc, argv, (struct crowd){.job = work, .stack_size = 256 << 10});
}
