/* SPDX-License-Identifier: MIT */
/*
 * Fetches pages over HTTP: at a limited rate, a few at a time, each with a deadline. One more
 * deadline covers all of them: pages that arrive later are given up.
 *
 *	example-fetch 127.0.0.1:8080 10 / /a /b    (10 a second)
 */
#include <errno.h>
#include <sennit/sennit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT_ONCE 8
#define EACH_MAX 2000000000ll
#define ALL_MAX 30000000000ll

static const char *host;
static sn_semaphore at_once = SN_SEMAPHORE_INIT(AT_ONCE);
static sn_mutex printing = SN_MUTEX_INIT;

/* Fetches a page. Returns the number of bytes, and sets *status; or returns an error. */
static ssize_t get(sn_tcp *conn, const char *path, int *status)
{
	char buf[4096];
	ssize_t n, size = 0;
	int length = snprintf(buf, sizeof buf, "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n", path, host);

	if (length < 0 || (size_t)length >= sizeof buf)
		return -ENAMETOOLONG;
	n = sn_tcp_write_all(conn, buf, (size_t)length, NULL);
	if (n < 0)
		return n;
	while ((n = sn_tcp_read(conn, buf, sizeof buf - 1)) > 0) {
		if (size == 0) {
			buf[n] = 0;
			if (sscanf(buf, "HTTP/%*s %d", status) != 1)
				return -EPROTO;
		}
		size += n;
	}
	return n < 0 ? n : size;
}

static ssize_t fetch_within(const char *path, int64_t deadline, int *status)
{
	sn_tcp *conn;
	ssize_t n = sn_tcp_connect(&conn, host, deadline);

	if (n < 0)
		return n;
	sn_tcp_set_read_deadline(conn, deadline);
	sn_tcp_set_write_deadline(conn, deadline);
	n = get(conn, path, status);
	sn_tcp_close(conn);
	return n;
}

/* One page that fails does not end the others, so its error is only printed. */
static int fetch(void *arg)
{
	const char *path = arg;
	int status = 0;
	ssize_t n = fetch_within(path, sn_after(EACH_MAX), &status);

	sn_semaphore_release(&at_once, 1);
	if (sn_mutex_lock(&printing) < 0)
		return 0;
	if (n < 0)
		printf("%s: %s\n", path, strerror((int)-n));
	else
		printf("%s: %d, %zd bytes\n", path, status, n);
	sn_mutex_unlock(&printing);
	return 0;
}

static int start_all(sn_scope *scope, long rate, char **paths)
{
	sn_ticker ticker = SN_TICKER_INIT;
	int64_t ticks = 0;
	int err = sn_ticker_start(&ticker, sn_now() + 1, 1000000000 / rate);

	for (; err >= 0 && *paths; paths++) {
		/* Ticks that passed while all slots were busy are not made up for. */
		ticks = sn_ticker_wait(&ticker);
		err = ticks < 0 ? (int)ticks : sn_semaphore_acquire(&at_once);
		if (err >= 0)
			err = sn_scope_go(scope, fetch, *paths);
	}
	sn_ticker_stop(&ticker);
	return err;
}

static int fetch_all(void *arg)
{
	char **args = arg;
	sn_scope *scope;
	int err, ended;

	host = args[1];
	err = sn_scope_open(&scope, sn_after(ALL_MAX));
	if (err < 0)
		return err;
	err = start_all(scope, strtol(args[2], NULL, 10), args + 3);
	ended = sn_scope_close(scope);
	return err < 0 ? err : ended;
}

int main(int argc, char **argv)
{
	int err;

	if (argc < 4 || strtol(argv[2], NULL, 10) < 1) {
		fprintf(stderr, "usage: %s HOST:PORT PAGES-A-SECOND PATH...\n", argv[0]);
		return 2;
	}
	err = sn_run(fetch_all, argv);
	if (err < 0)
		fprintf(stderr, "fetch: %s\n", strerror(-err));
	return err < 0;
}
