/* SPDX-License-Identifier: MIT */
/*
 * What OpenSSL itself takes for a server's handshakes, which tls.py shows beside the servers: plain
 * OpenSSL with the options of libsennit-tls (src/tls), but none of its callbacks. A connection is
 * the same work as with the servers of tls.py: the handshake with one ticket, the client's end, the
 * server's end.
 *
 *	limit new chain.pem key.pem SECONDS	    client and server in one thread, in memory
 *	limit resumed chain.pem key.pem SECONDS	    the same, with a session from a handshake before
 *	limit serve chain.pem key.pem		    a server on sockets, one connection at a time
 *
 * The first two print the number of handshakes and the nanoseconds of the CPU time of the server's
 * calls alone; there is no socket. The third prints its port, and serves until it is ended. Its
 * thread blocks in OpenSSL's calls, so there are no system calls but those of a connection.
 */
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "../plain.h"

static SSL_CTX *server_ctx, *client_ctx;
static SSL_SESSION *session; /* that the client offers; NULL: none */
static bool keeps;           /* the next session is to be kept */

static void must(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "limit: %s\n", what);
	ERR_print_errors_fp(stderr);
	exit(1);
}

/* The options of a server's configuration in src/tls/config.c and session.c. */
static void make_server(const char *chain, const char *key)
{
	SSL_CTX *ctx = server_ctx = SSL_CTX_new(TLS_server_method());

	must(SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1, "version");
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
					 SSL_OP_CIPHER_SERVER_PREFERENCE |
					 SSL_OP_PRIORITIZE_CHACHA);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				      SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_read_ahead(ctx, 1);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(ctx, 1);
	must(SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
					   "TLS_CHACHA20_POLY1305_SHA256") == 1 &&
		     SSL_CTX_set1_groups_list(ctx, "X25519:P-256:P-384") == 1,
	     "ciphers");
	must(SSL_CTX_use_certificate_chain_file(ctx, chain) == 1 &&
		     SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) == 1,
	     "certificate");
}

static int keep(SSL *ssl, SSL_SESSION *fresh)
{
	(void)ssl;
	if (!keeps)
		return 0;
	keeps = false;
	session = fresh;
	return 1;
}

/* The options of load.c. */
static void make_client(void)
{
	SSL_CTX *ctx = client_ctx = SSL_CTX_new(TLS_client_method());

	must(SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
		     SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256") == 1 &&
		     SSL_CTX_set1_groups_list(ctx, "X25519") == 1,
	     "client");
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(ctx, keep);
}

/* ---- in memory ---- */

/* Nanoseconds of this thread's CPU time. */
static int64_t cpu(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static SSL *make_end(SSL_CTX *ctx, BIO *in, BIO *out)
{
	SSL *ssl = SSL_new(ctx);

	must(ssl != NULL, "SSL_new()");
	SSL_set_bio(ssl, in, out);
	return ssl;
}

/* One connection. Returns the CPU time of the server's calls. */
static int64_t connect_once(void)
{
	BIO *to_server = BIO_new(BIO_s_mem()), *to_client = BIO_new(BIO_s_mem());
	SSL *client = make_end(client_ctx, to_client, to_server), *server;
	const bool offers = session != NULL;
	int64_t took = -cpu();
	char byte;

	BIO_up_ref(to_server);
	BIO_up_ref(to_client);
	server = make_end(server_ctx, to_server, to_client);
	took += cpu();
	if (offers)
		must(SSL_set_session(client, session) == 1, "SSL_set_session()");
	must(SSL_connect(client) == -1, "the client's first part");
	took -= cpu();
	must(SSL_accept(server) == -1, "the server's first part");
	took += cpu();
	must(SSL_connect(client) == 1, "the client's second part");
	must(SSL_session_reused(client) == offers, "a session is resumed or not");
	took -= cpu();
	must(SSL_accept(server) == 1, "the server's second part");
	took += cpu();
	must(SSL_read(client, &byte, 1) == -1, "the client's read of the ticket");
	SSL_shutdown(client);
	took -= cpu();
	must(SSL_read(server, &byte, 1) == 0, "the server's read of the end");
	SSL_shutdown(server);
	SSL_free(server);
	ERR_clear_error();
	took += cpu();
	SSL_free(client);
	ERR_clear_error();
	return took;
}

static void run_in_memory(bool resumed, double seconds)
{
	const int64_t until = now() + (int64_t)(seconds * 1e9);
	int64_t took = 0;
	long n = 0;

	connect_once(); /* what only the first one costs is not counted */
	if (resumed) {
		keeps = true;
		connect_once();
		must(session != NULL, "the server gives no ticket");
		/* Otherwise a client uses a session only once. */
		SSL_CTX_set_session_cache_mode(client_ctx, SSL_SESS_CACHE_OFF);
	}
	while (now() < until) {
		took += connect_once();
		n++;
	}
	printf("%ld %lld\n", n, (long long)took);
}

/* ---- on sockets ---- */

static void serve_one(int fd)
{
	SSL *ssl = SSL_new(server_ctx);
	char byte;

	must(ssl && SSL_set_fd(ssl, fd) == 1, "SSL_new()");
	if (SSL_accept(ssl) == 1 && SSL_read(ssl, &byte, 1) == 0)
		SSL_shutdown(ssl);
	ERR_clear_error();
	SSL_free(ssl);
	close(fd);
}

static void serve(void)
{
	struct sockaddr_in address = at("0");
	socklen_t length = sizeof address;
	const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd;

	check(listener >= 0 && bind(listener, (struct sockaddr *)&address, length) == 0 &&
		      listen(listener, 1000) == 0 &&
		      getsockname(listener, (struct sockaddr *)&address, &length) == 0,
	      "listen");
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		serve_one(fd);
	perror("accept");
}

int main(int argc, char **argv)
{
	const char *what = argc > 3 ? argv[1] : "";

	signal(SIGPIPE, SIG_IGN);
	if (argc == 4 && strcmp(what, "serve") == 0) {
		make_server(argv[2], argv[3]);
		serve();
		return 1;
	}
	if (argc != 5 || (strcmp(what, "new") != 0 && strcmp(what, "resumed") != 0))
		return 2;
	make_server(argv[2], argv[3]);
	make_client();
	run_in_memory(strcmp(what, "resumed") == 0, atof(argv[4]));
	return 0;
}
