/* SPDX-License-Identifier: MIT */
/*
 * An echo server over TLS, one task per connection, with OpenSSL. It shows how to use a library
 * that keeps per-thread state, here its error queue. The library reads and writes memory (memory
 * BIOs), and the task waits for the network between calls of the library, never inside one.
 *
 *	openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -keyout key.pem -out cert.pem
 *	example-tls-echo 127.0.0.1:7443 cert.pem key.pem
 *	openssl s_client -quiet -connect 127.0.0.1:7443
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sennit/sennit.h>
#include <stdio.h>
#include <string.h>

/* One connection. Bytes from the network go into `in`; bytes to be sent are in `out`. */
struct tls {
	sn_tcp *conn;
	SSL *ssl;
	BIO *in, *out;
};

/* The outcome of one call of the library. */
struct outcome {
	int result, error; /* what the call returned, and its SSL_get_error() */
	char text[200];    /* for SSL_ERROR_SSL */
};

enum call { ACCEPT, READ, WRITE, SHUTDOWN };

/*
 * Calls the library. Nothing parks between the clearing of the thread's error queue and the last
 * read from it, so no other task runs on this thread, and nothing else gets into the queue. A
 * separate function, because a compiler may cache the address of a thread-local within a function.
 */
static __attribute__((noinline)) struct outcome call(struct tls *tls, enum call which, void *buf,
						     int size)
{
	struct outcome outcome = {0};

	ERR_clear_error();
	switch (which) {
	case ACCEPT:
		outcome.result = SSL_accept(tls->ssl);
		break;
	case READ:
		outcome.result = SSL_read(tls->ssl, buf, size);
		break;
	case WRITE:
		outcome.result = SSL_write(tls->ssl, buf, size);
		break;
	case SHUTDOWN:
		/* 0 means that close_notify was sent, and the peer's has not arrived. This does
		 * not wait for the peer's. */
		outcome.result = SSL_shutdown(tls->ssl) < 0 ? -1 : 1;
		break;
	}
	if (outcome.result <= 0) {
		outcome.error = SSL_get_error(tls->ssl, outcome.result);
		if (outcome.error == SSL_ERROR_SSL)
			ERR_error_string_n(ERR_peek_last_error(), outcome.text,
					   sizeof outcome.text);
	}
	return outcome;
}

/* Sends what the library has written. May park. */
static int flush(struct tls *tls)
{
	char buf[16384];
	ssize_t err;
	int n;

	while ((n = BIO_read(tls->out, buf, sizeof buf)) > 0) {
		err = sn_tcp_write_all(tls->conn, buf, (size_t)n, NULL);
		if (err < 0)
			return (int)err;
	}
	return 0;
}

/* Waits for bytes from the peer and gives them to the library. May park. */
static int fill(struct tls *tls)
{
	char buf[16384];
	ssize_t n = sn_tcp_read(tls->conn, buf, sizeof buf);

	if (n < 0)
		return (int)n;
	if (n == 0)
		return -ECONNRESET; /* without close_notify, bytes may be missing */
	return BIO_write(tls->in, buf, (int)n) == (int)n ? 0 : -ENOMEM;
}

/* Completes one call, with all the waits that it needs. Returns its result, 0 at a clean end, or
 * -errno. */
static int complete(struct tls *tls, enum call which, void *buf, int size)
{
	for (;;) {
		struct outcome outcome = call(tls, which, buf, size);
		int err = flush(tls); /* a failed call may have an alert for the peer too */

		if (outcome.result > 0)
			return err < 0 ? err : outcome.result;
		if (outcome.error == SSL_ERROR_ZERO_RETURN)
			return 0;
		if (outcome.error == SSL_ERROR_SSL)
			fprintf(stderr, "tls-echo: %s\n", outcome.text);
		if (outcome.error != SSL_ERROR_WANT_READ)
			return -EPROTO;
		if (err == 0)
			err = fill(tls);
		if (err < 0)
			return err;
	}
}

static SSL_CTX *context;

static int echo(struct tls *tls)
{
	char buf[4096];
	int n = complete(tls, ACCEPT, NULL, 0);

	while (n > 0) {
		n = complete(tls, READ, buf, sizeof buf);
		if (n > 0)
			n = complete(tls, WRITE, buf, n);
	}
	if (n == 0)
		complete(tls, SHUTDOWN, NULL, 0);
	return n;
}

static int session(void *arg)
{
	struct tls tls = {.conn = arg, .ssl = SSL_new(context)};
	int err = -ENOMEM;

	tls.in = BIO_new(BIO_s_mem());
	tls.out = BIO_new(BIO_s_mem());
	if (tls.ssl && tls.in && tls.out) {
		SSL_set_bio(tls.ssl, tls.in, tls.out); /* owned by the connection from now on */
		err = echo(&tls);
	} else {
		BIO_free(tls.in);
		BIO_free(tls.out);
	}
	printf("%s\n", err == 0 ? "clean end" : strerror(-err));
	fflush(stdout);
	SSL_free(tls.ssl);
	sn_tcp_close(tls.conn);
	return 0;
}

static int serve(void *arg)
{
	sn_tcp_listener *listener;
	sn_tcp *peer;
	char address[64];
	int err = sn_tcp_listen(&listener, arg);

	if (err >= 0 && sn_tcp_listener_address(listener, address, sizeof address) >= 0) {
		printf("listening on %s\n", address);
		fflush(stdout);
	}
	while (err >= 0 && (err = sn_tcp_accept(listener, &peer)) >= 0)
		err = sn_go(session, peer);
	return err;
}

int main(int argc, char **argv)
{
	int err;

	if (argc != 4) {
		fprintf(stderr, "usage: example-tls-echo ADDRESS CERTIFICATE KEY\n");
		return 2;
	}
	context = SSL_CTX_new(TLS_server_method());
	if (!context || SSL_CTX_use_certificate_chain_file(context, argv[2]) != 1 ||
	    SSL_CTX_use_PrivateKey_file(context, argv[3], SSL_FILETYPE_PEM) != 1) {
		ERR_print_errors_fp(stderr);
		return 1;
	}
	err = sn_run(serve, argv[1]);
	fprintf(stderr, "tls-echo: %s\n", strerror(-err));
	return 1;
}
