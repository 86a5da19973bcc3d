/* SPDX-License-Identifier: MIT */
/*
 * OpenSSL with SSL_set_fd(): WHERE is a port. Each of N clients connects, asks, and reads the
 * answer to its end. The asynchronous interface is OpenSSL's on non-blocking sockets.
 *
 *	PROGRAM serve
 *
 * is the server: it prints two ports, a plain one and one for TLS. It answers each request after
 * 200 ms, from hooked tasks.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include "loop.h"
#include "ways.h"

#define DELAY 200000000

static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
static const char response[] =
	"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello";
static SSL_CTX *context;

static struct sockaddr_in address_of(int port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons((uint16_t)port),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* ---- the server ---- */

struct listener {
	int fd;
	bool tls;
};

struct visitor {
	int fd;
	bool tls;
};

static int serve_tls(int fd)
{
	SSL *ssl = SSL_new(context);
	char buf[1000];

	SSL_set_fd(ssl, fd);
	if (SSL_accept(ssl) == 1 && SSL_read(ssl, buf, sizeof buf) > 0) {
		sn_sleep(DELAY);
		SSL_write(ssl, response, sizeof response - 1);
		SSL_shutdown(ssl);
	}
	SSL_free(ssl);
	return 0;
}

static int serve_one(void *arg)
{
	const struct visitor visitor = *(struct visitor *)arg;
	char buf[1000];

	free(arg);
	if (visitor.tls) {
		serve_tls(visitor.fd);
	} else if (recv(visitor.fd, buf, sizeof buf, 0) > 0) {
		sn_sleep(DELAY);
		send(visitor.fd, response, sizeof response - 1, MSG_NOSIGNAL);
	}
	close(visitor.fd);
	return 0;
}

static int serve(void *arg)
{
	const struct listener *listener = arg;
	const struct sn_task_attr attr =
		SN_TASK_ATTR_INIT(.flags = SN_TASK_HOOKED, .stack_size = STACK_SIZE);

	for (;;) {
		struct visitor *visitor = malloc(sizeof *visitor);
		sn_task *task;

		visitor->tls = listener->tls;
		visitor->fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
		CHECK(visitor->fd >= 0 && sn_spawn(&task, serve_one, visitor, &attr) == 0);
		sn_detach(task);
	}
	return 0;
}

static void make_certificate(void)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *certificate = X509_new();
	X509_NAME *name = X509_get_subject_name(certificate);

	X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
	X509_gmtime_adj(X509_getm_notAfter(certificate), 86400);
	X509_set_pubkey(certificate, key);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1,
				   0);
	X509_set_issuer_name(certificate, name);
	X509_sign(certificate, key, EVP_sha256());
	context = SSL_CTX_new(TLS_server_method());
	CHECK(SSL_CTX_use_certificate(context, certificate) == 1 &&
	      SSL_CTX_use_PrivateKey(context, key) == 1);
}

static int serve_both(void *arg)
{
	static struct listener listeners[2] = {{.tls = false}, {.tls = true}};
	const struct sn_task_attr attr = SN_TASK_ATTR_INIT(.flags = SN_TASK_HOOKED);
	sn_task *task;

	(void)arg;
	for (int i = 0; i < 2; i++) {
		struct sockaddr_in address = address_of(0);
		socklen_t length = sizeof address;
		const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		CHECK(bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, MOST) == 0);
		CHECK(getsockname(fd, (struct sockaddr *)&address, &length) == 0);
		listeners[i].fd = fd;
		printf("%d%c", ntohs(address.sin_port), i ? '\n' : ' ');
		CHECK(sn_spawn(&task, serve, &listeners[i], &attr) == 0);
	}
	fflush(stdout);
	return sn_join(task, NULL);
}

static int serve_main(void)
{
	struct rlimit files;

	CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	make_certificate();
	return sn_run(serve_both, NULL);
}

/* ---- blocking clients ---- */

static SSL *client_of(const struct ways *ways, int *fd, int flags)
{
	const struct sockaddr_in address = address_of(atoi(ways->where));
	SSL *ssl = SSL_new(context);

	*fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	CHECK(*fd >= 0);
	CHECK(connect(*fd, (const struct sockaddr *)&address, sizeof address) == 0 || flags);
	SSL_set_fd(ssl, *fd);
	SSL_set_connect_state(ssl);
	return ssl;
}

static void talk(const struct ways *ways, int i)
{
	char buf[1000];
	int fd;
	SSL *ssl = client_of(ways, &fd, 0);

	(void)i;
	CHECK(SSL_write(ssl, request, sizeof request - 1) == sizeof request - 1);
	CHECK(SSL_read(ssl, buf, sizeof buf) == sizeof response - 1);
	CHECK(SSL_read(ssl, buf, sizeof buf) == 0);
	SSL_free(ssl);
	close(fd);
}

/* ---- non-blocking clients ---- */

static struct client {
	struct loop_watch watch;
	SSL *ssl;
	int fd, state; /* 0: asks, 1: reads the answer, 2: reads the end */
} clients[MOST];

static int clients_left;

/* Continues the client until it must wait. Returns what it waits for; 0: it has ended. */
static uint32_t step(struct client *client)
{
	char buf[1000];

	for (;; client->state++) {
		const int n = client->state == 0
				      ? SSL_write(client->ssl, request, sizeof request - 1)
				      : SSL_read(client->ssl, buf, sizeof buf);
		const int error = n > 0 ? 0 : SSL_get_error(client->ssl, n);

		if (error == SSL_ERROR_WANT_READ)
			return EPOLLIN;
		if (error == SSL_ERROR_WANT_WRITE)
			return EPOLLOUT;
		if (client->state == 2) {
			CHECK(error == SSL_ERROR_ZERO_RETURN);
			return 0;
		}
		CHECK(error == 0);
	}
}

static void ready(struct loop_watch *watch, uint32_t events)
{
	struct client *client = (struct client *)watch;
	const uint32_t wanted = step(client);

	(void)events;
	loop_wait_for(watch, client->fd, wanted);
	if (wanted != 0)
		return;
	SSL_free(client->ssl);
	close(client->fd);
	clients_left--;
}

static void talk_all(const struct ways *ways)
{
	clients_left = ways->n;
	for (int i = 0; i < ways->n; i++) {
		struct client *client = &clients[i];

		client->ssl = client_of(ways, &client->fd, SOCK_NONBLOCK);
		client->watch.ready = ready;
		loop_wait_for(&client->watch, client->fd, EPOLLOUT);
	}
	loop_run(&clients_left, NULL);
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "serve") == 0)
		return serve_main();
	context = SSL_CTX_new(TLS_client_method());
	return ways_main(argc, argv, (struct ways){.job = talk, .all = talk_all});
}
