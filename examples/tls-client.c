/* SPDX-License-Identifier: MIT */
/*
 * Connects over TLS, sends what it reads from its standard input, and prints what comes back
 * (docs/tls.md). With a file of authorities it trusts these, otherwise the system's.
 *
 *	printf 'GET / HTTP/1.0\r\nHost: example.org\r\n\r\n' | example-tls-client example.org:443
 *	echo hello | example-tls-client localhost:7443 cert.pem          (tls-server.c's)
 *
 * With "staple" after the authorities, the server must send a valid OCSP response.
 */
#include <sennit/sennit.h>
#include <sennit/tls.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Copies the input, in a task of its own, so that answers can be read at the same time. */
static int send_input(void *arg)
{
	sn_stream *stream = arg, *input;
	int err = sn_stream_adopt(&input, dup(STDIN_FILENO));

	if (err == 0) {
		err = sn_copy(stream, input, -1, NULL, NULL, NULL);
		sn_stream_close(input);
	}
	sn_stream_shutdown(stream, SN_SHUT_WRITE);
	return err;
}

static int run(void *arg)
{
	char **argv = arg, buf[16384];
	struct sn_tls_info info = SN_TLS_INFO_INIT();
	sn_tls_config *config = NULL;
	sn_stream *stream;
	sn_task *sender;
	ssize_t n;
	int err;

	err = sn_tls_config_new(&config, SN_TLS_CLIENT);
	if (err == 0 && argv[2])
		err = sn_tls_config_add_ca(config, argv[2]);
	if (err == 0 && argv[2] && argv[3])
		err = sn_tls_config_set_stapling(config, SN_TLS_STAPLING_REQUIRE);
	if (err == 0)
		err = sn_tls_connect(&stream, argv[1], config, sn_now() + 10 * INT64_C(1000000000));
	sn_tls_config_unref(config);
	if (err < 0) {
		fprintf(stderr, "%s\n", sn_tls_last_error());
		return 1;
	}
	sn_tls_info(stream, &info);
	fprintf(stderr, "TLS 1.%d, %s\n", info.version - SN_TLS_1_2 + 2, info.cipher);
	if (sn_spawn(&sender, send_input, stream, NULL) < 0)
		return 1;
	while ((n = sn_stream_read(stream, buf, sizeof buf)) > 0) {
		fwrite(buf, 1, (size_t)n, stdout);
		fflush(stdout);
	}
	if (n < 0)
		fprintf(stderr, "%s\n", sn_tls_error(stream));
	sn_join(sender, NULL);
	sn_stream_close(stream);
	return n < 0;
}

int main(int argc, char **argv)
{
	const struct sn_run_attr attr = SN_RUN_ATTR_INIT(.stack_size = SN_TLS_STACK);

	if (argc < 2 || argc > 4 || (argc == 4 && strcmp(argv[3], "staple") != 0)) {
		fprintf(stderr, "usage: %s host:port [authorities.pem [staple]]\n", argv[0]);
		return 2;
	}
	return sn_run_with_attr(run, argv, &attr);
}
