/* SPDX-License-Identifier: MIT */
/*
 * A server over TLS that sends each line back, one task per connection (docs/tls.md). tls-client is
 * its client; tls-echo does the same without libsennit-tls, as a guide for other libraries.
 *
 *	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 \
 *		-subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout key.pem -out cert.pem
 *	example-tls-server 127.0.0.1:7443 cert.pem key.pem
 *	openssl s_client -quiet -CAfile cert.pem -verify_return_error -connect localhost:7443
 *
 * After SIGTERM or ^C, connections have a second to end by themselves, and are then cancelled. If a
 * fourth argument names the file of an OCSP response, clients that ask for one get it.
 */
#include <sennit/sennit.h>
#include <sennit/tls.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define SECOND INT64_C(1000000000)

struct server {
	sn_tls_config *config;
	sn_tcp_listener *listener;
	sn_scope *connections;
};

static struct server server;

static int serve(void *arg)
{
	sn_stream *stream = arg;
	sn_reader in;
	char *line;
	ssize_t n;
	int err = sn_tls_server(stream, server.config);

	if (err == 0)
		err = sn_tls_handshake(stream, sn_now() + 10 * SECOND);
	if (err < 0) {
		fprintf(stderr, "handshake: %s\n", sn_tls_last_error());
		sn_stream_close(stream);
		return 0; /* no reason to end the others */
	}
	n = sn_reader_init(&in, stream, NULL, 0);
	while (n >= 0 && (n = sn_reader_through(&in, "\n", 1, &line)) > 0)
		if (sn_stream_write_all(stream, line, (size_t)n, NULL) < 0)
			break;
	if (n < 0 && !sn_cancelled())
		fprintf(stderr, "reading: %s\n", strerror((int)-n));
	sn_reader_free(&in);
	sn_stream_close(stream); /* tells the client that this is the end */
	return 0;
}

/* Accepts until its scope is cancelled. */
static int accept_all(void *arg)
{
	const struct sn_task_attr attr =
		SN_TASK_ATTR_INIT(.name = "connection", .stack_size = SN_TLS_STACK);
	sn_tcp *conn;
	int err;

	(void)arg;
	while ((err = sn_tcp_accept(server.listener, &conn)) == 0)
		if (sn_scope_spawn(server.connections, serve, sn_tcp_stream(conn), &attr) < 0)
			sn_tcp_close(conn);
	return err;
}

static int configure(char **argv)
{
	const struct sn_tls_certificate certificate = {argv[2], argv[3]};
	char response[16384];
	FILE *file;
	size_t size;

	if (sn_tls_config_new(&server.config, SN_TLS_SERVER) < 0 ||
	    sn_tls_config_set_certificates(server.config, &certificate, 1) < 0)
		return -1;
	if (!argv[4])
		return 0;
	file = fopen(argv[4], "rb");
	size = file ? fread(response, 1, sizeof response, file) : 0;
	if (file)
		fclose(file);
	return sn_tls_config_set_ocsp_response(server.config, response, size);
}

/* Serves until a signal comes, or until accepting fails, which returns an error. */
static int serve_until_signal(void)
{
	sn_scope *accepting;
	int signal, err = sn_scope_open(&accepting, SN_NO_DEADLINE);

	if (err < 0)
		return err;
	signal = sn_scope_go(accepting, accept_all, NULL);
	if (signal == 0)
		signal = sn_signal_wait(SN_NO_DEADLINE);
	sn_scope_cancel(accepting);
	sn_scope_close(accepting);
	return signal;
}

static int run(void *arg)
{
	char **argv = arg, address[SN_ADDRESS_MAX];
	int err;

	if (configure(argv) < 0) {
		fprintf(stderr, "%s\n", sn_tls_last_error());
		return 1;
	}
	if (sn_tcp_listen(&server.listener, argv[1]) < 0) {
		fprintf(stderr, "cannot listen on %s\n", argv[1]);
		return 1;
	}
	if (sn_signal_catch(SIGTERM) < 0 || sn_signal_catch(SIGINT) < 0 ||
	    sn_scope_open(&server.connections, SN_NO_DEADLINE) < 0)
		return 1;
	sn_tcp_listener_address(server.listener, address, sizeof address);
	printf("listening on %s\n", address);
	fflush(stdout);
	err = serve_until_signal();
	if (err < 0)
		fprintf(stderr, "accepting: %s\n", strerror(-err));
	sn_tcp_listener_close(server.listener);
	sn_scope_close_until(server.connections, sn_after(1 * SECOND));
	sn_tls_config_unref(server.config);
	return err < 0;
}

int main(int argc, char **argv)
{
	if (argc != 4 && argc != 5) {
		fprintf(stderr, "usage: %s address chain.pem key.pem [response.der]\n", argv[0]);
		return 2;
	}
	return sn_run(run, argv);
}
