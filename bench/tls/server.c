/* SPDX-License-Identifier: MIT */
/*
 * server chain.pem key.pem FOLDER: what tls.py measures, with libsennit-tls. It prints its port.
 *
 * "GET /file/NAME" is answered with the file in FOLDER, which stays open, and is read for each
 * request, as nginx does with its cache of open files. "GET /stream/SIZE" is answered with writes
 * of this size without end, and "GET /sink" by reading without end. Anything else gets a short
 * text. A request must come whole, as the load sends it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sennit/sennit.h>
#include <sennit/tls.h>

#define BUFFER ((size_t)64 << 10)

static sn_tls_config *config;
static const char *folder;

/* The files that have been asked for. */
static struct {
	char name[32];
	int fd;
	off_t size;
} files[16];
static int nfiles;
static sn_mutex files_lock;

/* The index of the file, or -1. */
static int find_file(const char *name)
{
	char path[512];
	struct stat about;
	int i;

	sn_mutex_lock_uncancelled(&files_lock);
	for (i = 0; i < nfiles; i++)
		if (strcmp(files[i].name, name) == 0)
			break;
	if (i == nfiles && i < 16) {
		snprintf(path, sizeof path, "%s/%s", folder, name);
		snprintf(files[i].name, sizeof files[i].name, "%.30s", name);
		files[i].fd = open(path, O_RDONLY | O_CLOEXEC);
		if (files[i].fd >= 0 && fstat(files[i].fd, &about) == 0) {
			files[i].size = about.st_size;
			nfiles++;
		}
	}
	i = i < nfiles ? i : -1;
	sn_mutex_unlock(&files_lock);
	return i;
}

static int answer_file(sn_stream *stream, const char *name)
{
	const int which = find_file(name);
	const off_t size = which < 0 ? 0 : files[which].size;
	const size_t room = (size_t)size + 128 < BUFFER ? (size_t)size + 128 : BUFFER;
	char *buf = which < 0 ? NULL : malloc(room);
	size_t filled;
	off_t at = 0;

	if (!buf)
		return -1;
	filled = (size_t)snprintf(buf, room, "HTTP/1.1 200 OK\r\nContent-Length: %lld\r\n\r\n",
				  (long long)size);
	while (at < size) {
		const ssize_t n = pread(files[which].fd, buf + filled, room - filled, at);

		if (n <= 0 || sn_stream_write_all(stream, buf, filled + (size_t)n, NULL) < 0)
			break;
		at += n;
		filled = 0;
	}
	free(buf);
	return at < size ? -1 : 0;
}

static int send_forever(sn_stream *stream, size_t size)
{
	char *buf = calloc(1, size);

	while (buf && sn_stream_write_all(stream, buf, size, NULL) >= 0)
		;
	free(buf);
	return -1;
}

static int read_forever(sn_stream *stream)
{
	char *buf = malloc(BUFFER);

	while (buf && sn_stream_read(stream, buf, BUFFER) > 0)
		;
	free(buf);
	return -1;
}

static int answer(sn_stream *stream, char *request)
{
	static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n";
	char *end = strstr(request, " HTTP/");

	if (end)
		*end = '\0';
	if (strncmp(request, "GET /file/", 10) == 0)
		return answer_file(stream, request + 10);
	if (strncmp(request, "GET /stream/", 12) == 0)
		return send_forever(stream, strtoul(request + 12, NULL, 10));
	if (strncmp(request, "GET /sink", 9) == 0)
		return read_forever(stream);
	return sn_stream_write_all(stream, text, sizeof text - 1, NULL) < 0 ? -1 : 0;
}

static int serve(void *arg)
{
	sn_stream *stream = arg;
	char request[512];
	ssize_t n;

	if (sn_tls_server(stream, config) == 0)
		while ((n = sn_stream_read(stream, request, sizeof request - 1)) > 0) {
			request[n] = '\0';
			if (answer(stream, request) < 0)
				break;
		}
	return sn_stream_close(stream);
}

static int run(void *arg)
{
	char **argv = arg;
	const struct sn_tls_certificate certificate = {argv[1], argv[2]};
	const struct sn_task_attr attr = SN_TASK_ATTR_INIT(.stack_size = SN_TLS_STACK);
	char address[SN_ADDRESS_MAX];
	sn_tcp_listener *listener;
	sn_tcp *conn;
	sn_task *task;

	folder = argv[3];
	if (sn_tls_config_new(&config, SN_TLS_SERVER) < 0 ||
	    sn_tls_config_set_certificates(config, &certificate, 1) < 0 ||
	    sn_tcp_listen(&listener, "127.0.0.1:0") < 0) {
		fprintf(stderr, "server: %s\n", sn_tls_last_error());
		return 1;
	}
	sn_tcp_listener_address(listener, address, sizeof address);
	printf("%s\n", address);
	fflush(stdout);
	while (sn_tcp_accept(listener, &conn) == 0) {
		if (sn_spawn(&task, serve, sn_tcp_stream(conn), &attr) == 0)
			sn_detach(task);
		else
			sn_tcp_close(conn);
	}
	return 0;
}

int main(int argc, char **argv)
{
	return argc == 4 ? sn_run(run, argv) : 2;
}
