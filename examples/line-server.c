/* SPDX-License-Identifier: MIT */
/*
 * A server with a line protocol: each line is a command, and some commands are followed by bytes
 * that belong to them. Each command gets one line as the answer. A client may send many commands
 * before it reads. Try (nc is in Debian's netcat-openbsd):
 *
 *	example-line-server 127.0.0.1:7002 &
 *	printf 'echo hi\nsum 5\nhelloquit\n' | nc 127.0.0.1 7002
 */
#include <errno.h>
#include <inttypes.h>
#include <sennit/sennit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_LINE 1000
#define COMMAND_MAX 60000000000ll /* 60 s for a command and its answer */

struct session {
	sn_tcp *conn;
	sn_reader in;
	sn_writer out;
};

/* Answers with the checksum (FNV-1a) of the `size` bytes after the line. It computes the sum in
 * the reader's buffer, part by part, so there may be more bytes than fit into memory. */
static ssize_t sum(struct session *s, unsigned long long size)
{
	uint32_t hash = 2166136261u;
	char *data;
	ssize_t n;

	for (; size > 0; size -= (unsigned long long)n) {
		n = sn_reader_peek(&s->in, 1, &data);
		if (n <= 0)
			return n < 0 ? n : -ECONNRESET; /* the stream ended too early */
		if ((unsigned long long)n > size)
			n = (ssize_t)size;
		for (ssize_t i = 0; i < n; i++)
			hash = (hash ^ (unsigned char)data[i]) * 16777619u;
		n = sn_reader_skip(&s->in, (size_t)n, NULL); /* the buffer has all of it */
	}
	return sn_writer_print(&s->out, "%08" PRIx32 "\n", hash);
}

/* Reads a command and answers it. Returns more than 0; 0 when it was the last; or an error of the
 * connection. */
static ssize_t serve_one(struct session *s)
{
	char *line;
	size_t length;
	ssize_t n = sn_reader_line(&s->in, &line, &length);

	if (n == -EMSGSIZE) {
		sn_writer_print(&s->out, "that line is too long\n");
		return sn_reader_skip_through(&s->in, "\n", 1);
	}
	if (n < 0)
		return n;
	if ((size_t)n == length) /* the stream's end, perhaps within a line */
		return 0;
	if (strcmp(line, "quit") == 0)
		return 0;
	if (strncmp(line, "sum ", 4) == 0)
		return sum(s, strtoull(line + 4, NULL, 10));
	if (strncmp(line, "echo ", 5) != 0)
		return sn_writer_print(&s->out, "there is echo TEXT, sum SIZE and quit\n");
	/* The text may contain zeros. The result is not tested here, because the writer keeps
	 * its first error. */
	sn_writer_write(&s->out, line + 5, length - 5);
	return sn_writer_write(&s->out, "\n", 1);
}

static int session(void *arg)
{
	struct session s = {.conn = arg};
	ssize_t n = sn_reader_init(&s.in, sn_tcp_stream(s.conn), NULL, LONGEST_LINE);

	if (n == 0)
		n = sn_writer_init(&s.out, sn_tcp_stream(s.conn), NULL, 0);
	/* The answers leave when there are no more commands to be read. */
	sn_reader_tie(&s.in, &s.out);
	for (n = n == 0; n > 0; n = serve_one(&s)) {
		sn_tcp_set_read_deadline(s.conn, sn_after(COMMAND_MAX));
		sn_tcp_set_write_deadline(s.conn, sn_after(COMMAND_MAX));
	}
	(void)!sn_writer_flush(&s.out); /* the client may be gone */
	sn_reader_free(&s.in);
	sn_writer_free(&s.out);
	sn_tcp_close(s.conn);
	return 0;
}

static int serve(void *arg)
{
	sn_tcp_listener *listener;
	sn_tcp *conn;
	char address[SN_ADDRESS_MAX];
	int err = sn_tcp_listen(&listener, arg);

	if (err == 0 && sn_tcp_listener_address(listener, address, sizeof address) > 0) {
		printf("listening on %s\n", address);
		fflush(stdout);
	}
	while (err == 0 && (err = sn_tcp_accept(listener, &conn)) == 0)
		err = sn_go(session, conn);
	return err;
}

int main(int argc, char **argv)
{
	int err;

	if (argc != 2) {
		fprintf(stderr, "usage: example-line-server ADDRESS\n");
		return 2;
	}
	err = sn_run(serve, argv[1]);
	fprintf(stderr, "line-server: %s: %s\n", argv[1], strerror(-err));
	return 1;
}
