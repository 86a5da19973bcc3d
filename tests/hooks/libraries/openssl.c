/* SPDX-License-Identifier: MIT */
/*
 * OpenSSL on blocking sockets (SSL_set_fd()): each task speaks TLS with a task of the same program.
 *
 * WHERE is "on": the tasks have hooks; "off": they have none; "pin": they have hooks, and are
 * pinned during the calls whose failure OpenSSL's queue of errors explains. With "+queue", other
 * tasks leave errors in the queues of their threads.
 *
 * Also prints how many ends of connections were mistaken for errors: OpenSSL looks into the queue
 * of the thread on which the task is, where another task may have left an error.
 */
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include "crowd.h"

#define ROUNDS 5

static SSL_CTX *server_context, *client_context;
static _Atomic int mistaken;

static int make_contexts(void)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *certificate = X509_new();
	X509_NAME *name = X509_get_subject_name(certificate);

	ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
	X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
	X509_gmtime_adj(X509_getm_notAfter(certificate), 86400);
	X509_set_pubkey(certificate, key);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1,
				   0);
	X509_set_issuer_name(certificate, name);
	X509_sign(certificate, key, EVP_sha256());
	server_context = SSL_CTX_new(TLS_server_method());
	client_context = SSL_CTX_new(TLS_client_method());
	return SSL_CTX_use_certificate(server_context, certificate) == 1 &&
			       SSL_CTX_use_PrivateKey(server_context, key) == 1
		       ? 0
		       : 1;
}

static int report(const char *what)
{
	fprintf(stderr, "%s:\n", what);
	ERR_print_errors_fp(stderr);
	return 1;
}

static int pins;

/* As OpenSSL requires, the queue is empty before the call, and is read right after it. */
static int read_some(SSL *ssl, char *buf, int size, int *error)
{
	int n;

	if (pins)
		sn_pin();
	ERR_clear_error();
	n = SSL_read(ssl, buf, size);
	*error = n > 0 ? SSL_ERROR_NONE : SSL_get_error(ssl, n);
	if (pins)
		sn_unpin();
	return n;
}

/* Answers each message after a while, until the stream ends. */
static int serve(void *arg)
{
	SSL *ssl = arg;
	char buf[100];
	int n, error;

	if (SSL_accept(ssl) != 1)
		return report("SSL_accept");
	while ((n = read_some(ssl, buf, sizeof buf, &error)) > 0) {
		sn_sleep(20000000);
		if (SSL_write(ssl, buf, n) != n)
			return report("SSL_write");
	}
	if (error != SSL_ERROR_ZERO_RETURN)
		atomic_fetch_add(&mistaken, 1);
	SSL_shutdown(ssl);
	return 0;
}

static int ask(SSL *ssl, int number)
{
	char question[100], answer[100] = "";

	if (SSL_connect(ssl) != 1)
		return report("SSL_connect");
	for (int i = 0; i < ROUNDS; i++) {
		const int size = snprintf(question, sizeof question, "question %d.%d", number, i);

		if (SSL_write(ssl, question, size) != size ||
		    SSL_read(ssl, answer, sizeof answer) != size ||
		    memcmp(question, answer, (size_t)size))
			return report("answer");
	}
	SSL_shutdown(ssl);
	return 0;
}

/* Leaves an error in the queue of the thread, where other tasks find it. */
static int litter(void *arg)
{
	_Atomic int *end = arg;

	while (!atomic_load(end)) {
		for (int i = 0; i < 4; i++) {
			ERR_raise(ERR_LIB_USER, ERR_R_INTERNAL_ERROR);
			sn_yield();
		}
		sn_sleep(1000000);
	}
	return 0;
}

static _Atomic int littering_ends;
static sn_task *litterers[4];

static int begin(struct crowd *crowd)
{
	pins = strstr(crowd->where, "pin") != NULL;
	if (strstr(crowd->where, "queue"))
		for (int i = 0; i < 4; i++)
			(void)!sn_spawn(&litterers[i], litter, &littering_ends, NULL);
	return 0;
}

static int talk(const struct crowd *crowd, int number)
{
	const int hooks = strstr(crowd->where, "off") ? SN_TASK_UNHOOKED : SN_TASK_HOOKED;
	const struct sn_task_attr attr =
		SN_TASK_ATTR_INIT(.flags = (uint32_t)hooks, .stack_size = 256 << 10);
	SSL *server = SSL_new(server_context), *client = SSL_new(client_context);
	sn_task *task;
	int fd[2], result, err;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) < 0)
		return 1;
	SSL_set_fd(server, fd[0]);
	SSL_set_fd(client, fd[1]);
	if (sn_spawn(&task, serve, server, &attr) < 0)
		return 1;
	if (hooks == SN_TASK_UNHOOKED)
		sn_hooks_set(SN_HOOKS_OFF);
	err = ask(client, number);
	if (sn_join(task, &result) < 0 || result)
		err = 1;
	SSL_free(client);
	SSL_free(server);
	close(fd[0]);
	close(fd[1]);
	return err;
}

int main(int argc, char **argv)
{
	int status;

	if (make_contexts() != 0)
		return report("contexts");
	status = crowd_main(argc, argv,
			    (struct crowd){.job = talk, .before = begin, .stack_size = 256 << 10});
	printf("%d ends mistaken\n", atomic_load(&mistaken));
	return status;
}
