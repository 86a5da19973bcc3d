/* SPDX-License-Identifier: MIT */
/*
 * A server over TLS that says each line back, one task per connection (docs/tls.md). tls-client is
 * its client; tls-echo does the same without libsennit-tls, as a guide for other libraries.
 *
 *	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 \
 *		-subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout key.pem -out cert.pem
 *	example-tls-server 127.0.0.1:7443 cert.pem key.pem
 *	openssl s_client -quiet -CAfile cert.pem -verify_return_error -connect localhost:7443
 */
#include <sennit/sennit.h>
#include <sennit/tls.h>
#include <stdio.h>
#include <string.h>

static sn_tls_config *config;

static int serve(void *arg)
{
	sn_stream *stream = arg;
	sn_reader in;
	char *line;
	ssize_t n;
	int err = sn_tls_server(stream, config);

	if (err == 0)
		err = sn_tls_handshake(stream, sn_now() + 10 * INT64_C(1000000000));
	if (err < 0) {
		fprintf(stderr, "handshake: %s\n", sn_tls_last_error());
		return sn_stream_close(stream);
	}
	sn_reader_init(&in, stream, NULL, 0);
	while ((n = sn_reader_until(&in, "\n", 1, &line)) > 0)
		if (sn_stream_write_all(stream, line, (size_t)n) < 0)
			break;
	if (n < 0)
		fprintf(stderr, "reading: %s\n", strerror((int)-n));
	sn_reader_free(&in);
	return sn_stream_close(stream);
}

static int run(void *arg)
{
	char **argv = arg;
	const struct sn_tls_certificate certificate = {argv[2], argv[3]};
	const struct sn_task_attr attr = {.name = "connection", .stack_size = SN_TLS_STACK};
	sn_tcp_listener *listener;
	char address[SN_ADDRESS_MAX];
	sn_tcp *conn;
	sn_task *task;

	sn_tls_config_new(&config, SN_TLS_SERVER);
	if (sn_tls_config_set_certificates(config, &certificate, 1) < 0) {
		fprintf(stderr, "%s\n", sn_tls_last_error());
		return 1;
	}
	if (sn_tcp_listen(&listener, argv[1]) < 0) {
		fprintf(stderr, "cannot listen on %s\n", argv[1]);
		return 1;
	}
	sn_tcp_listener_address(listener, address, sizeof address);
	printf("listening on %s\n", address);
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
	if (argc != 4) {
		fprintf(stderr, "usage: %s address chain.pem key.pem\n", argv[0]);
		return 2;
	}
	return sn_run(run, argv);
}
