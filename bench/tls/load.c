/* SPDX-License-Identifier: MIT */
/*
 * The load of tls.py: plain OpenSSL, a thread per connection, TLS 1.3 with X25519 and
 * AES-128-GCM, whatever the server is.
 *
 *	load file PORT SIZE CONNECTIONS SECONDS	    requests for a file of this size, over and over
 *	load stream PORT SIZE CONNECTIONS SECONDS   reads what the server sends by writes of this size
 *	load sink PORT SIZE CONNECTIONS SECONDS	    sends writes of this size
 *	load new PORT 0 CONNECTIONS SECONDS	    connects, and ends the connection
 *	load resumed PORT 0 CONNECTIONS SECONDS	    the same, with a session from a connection before
 *	load idle PORT 0 CONNECTIONS 127.0.0.X	    a request over each, which then stays open
 *
 * Each prints one line: bytes or handshakes, and the nanoseconds that they took. `idle` prints its
 * line once all connections are open, and ends when its standard input does. If any connection
 * fails, the whole load fails.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#define CHECK(what)                                               \
	do {                                                      \
		if (!(what)) {                                    \
			fprintf(stderr, "load: %s: %m\n", #what); \
			ERR_print_errors_fp(stderr);              \
			exit(1);                                  \
		}                                                 \
	} while (0)

static SSL_CTX *ctx;
static const char *mode;
static unsigned short port;
static size_t piece;
static SSL_SESSION *session; /* for `resumed` */
static atomic_bool over;
static _Atomic unsigned long long done;

static long long now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static SSL *open_connection(const char *from)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
	const int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	SSL *ssl;

	CHECK(fd >= 0);
	/* Without this, Nagle's algorithm would hold up the first request after the handshake. */
	CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
	if (from) {
		struct sockaddr_in source = {.sin_family = AF_INET};

		inet_pton(AF_INET, from, &source.sin_addr);
		CHECK(bind(fd, (struct sockaddr *)&source, sizeof source) == 0);
	}
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
	ssl = SSL_new(ctx);
	CHECK(ssl && SSL_set_fd(ssl, fd) == 1);
	if (session && strcmp(mode, "resumed") == 0)
		CHECK(SSL_set_session(ssl, session) == 1);
	CHECK(SSL_connect(ssl) == 1);
	return ssl;
}

/* Ends in both directions, so that the server has done all of its work. */
static void end_connection(SSL *ssl)
{
	const int fd = SSL_get_fd(ssl);
	char rest[256];

	SSL_shutdown(ssl);
	shutdown(fd, SHUT_WR);
	while (SSL_read(ssl, rest, sizeof rest) > 0)
		;
	ERR_clear_error();
	SSL_free(ssl);
	close(fd);
}

static void request(SSL *ssl, const char *what)
{
	char text[128];
	const int n =
		snprintf(text, sizeof text, "GET /%s/%zu HTTP/1.1\r\nHost: x\r\n\r\n", what, piece);

	CHECK(SSL_write(ssl, text, n) == n);
}

/* Reads an answer with its header, and returns the size of the content. */
static size_t answer(SSL *ssl, char *buf, size_t size)
{
	size_t got = 0, have;
	char *end = NULL, *length;
	int n;

	while (!end) {
		n = SSL_read(ssl, buf + got, (int)(size - got - 1));
		CHECK(n > 0);
		got += (size_t)n;
		buf[got] = '\0';
		end = strstr(buf, "\r\n\r\n");
	}
	length = strcasestr(buf, "content-length: ");
	CHECK(strncmp(buf, "HTTP/1.1 200", 12) == 0 && length && length < end);
	have = got - (size_t)(end + 4 - buf);
	size_t total = strtoul(length + 16, NULL, 10);

	while (have < total) {
		n = SSL_read(ssl, buf, (int)size);
		CHECK(n > 0);
		have += (size_t)n;
	}
	return total;
}

static void *transfer(void *arg)
{
	const size_t size = 64 << 10;
	char *buf = calloc(1, size > piece ? size : piece);
	SSL *ssl = open_connection(NULL);
	int n;

	(void)arg;
	if (strcmp(mode, "file") != 0)
		request(ssl, mode);
	while (!over) {
		if (strcmp(mode, "file") == 0) {
			request(ssl, mode);
			done += answer(ssl, buf, size);
		} else {
			n = strcmp(mode, "sink") == 0 ? SSL_write(ssl, buf, (int)piece)
						      : SSL_read(ssl, buf, (int)size);
			CHECK(n > 0);
			done += (unsigned)n;
		}
	}
	close(SSL_get_fd(ssl));
	SSL_free(ssl);
	free(buf);
	return NULL;
}

static void *connect_often(void *arg)
{
	const int resumed = strcmp(mode, "resumed") == 0;

	(void)arg;
	while (!over) {
		SSL *ssl = open_connection(NULL);

		CHECK(SSL_session_reused(ssl) == resumed);
		end_connection(ssl);
		done++;
	}
	return NULL;
}

static int keep(SSL *ssl, SSL_SESSION *fresh)
{
	(void)ssl;
	if (session)
		return 0;
	session = fresh;
	return 1;
}

static void get_session(void)
{
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(ctx, keep);
	end_connection(open_connection(NULL));
	CHECK(session);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
}

static void idle(int n, const char *from)
{
	char buf[1024];
	const long long since = now();

	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
	for (int i = 0; i < n; i++) {
		SSL *ssl = open_connection(from);

		request(ssl, "hello");
		answer(ssl, buf, sizeof buf);
	}
	printf("%d %lld\n", n, now() - since);
	fflush(stdout);
	while (read(0, buf, sizeof buf) > 0)
		;
	exit(0);
}

int main(int argc, char **argv)
{
	pthread_t threads[1024];
	const int n = argc == 6 ? atoi(argv[4]) : 0;
	long long since;

	if (n < 1)
		return 2;
	signal(SIGPIPE, SIG_IGN);
	mode = argv[1];
	port = (unsigned short)atoi(argv[2]);
	piece = strtoul(argv[3], NULL, 10);
	ctx = SSL_CTX_new(TLS_client_method());
	CHECK(SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1);
	CHECK(SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256") == 1);
	CHECK(SSL_CTX_set1_groups_list(ctx, "X25519") == 1);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_read_ahead(ctx, 1);
	if (strcmp(mode, "idle") == 0)
		idle(n, argv[5]);
	CHECK(n <= 1024);
	if (strcmp(mode, "resumed") == 0)
		get_session();
	since = now();
	for (int i = 0; i < n; i++)
		CHECK(pthread_create(&threads[i], NULL,
				     strcmp(mode, "new") == 0 || strcmp(mode, "resumed") == 0
					     ? connect_often
					     : transfer,
				     NULL) == 0);
	usleep((unsigned)(atof(argv[5]) * 1e6));
	over = true;
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	printf("%llu %lld\n", done, now() - since);
	return 0;
}
