/* SPDX-License-Identifier: MIT */
/*
 * libmodbus: WHERE is the port of a Modbus server, which this program is itself when it is started
 * as PROGRAM serve PORT, until SIGTERM.
 *
 * The server answers after 20 ms, but not the first request for a register from LOST on. Without an
 * answer libmodbus notes errno, which is ETIMEDOUT, sleeps, and stores it into errno again; the
 * task asks again if it finds it there.
 */
#include <errno.h>
#include <modbus.h>
#include <poll.h>
#include <sys/socket.h>

#include "crowd.h"

#define ROUNDS 3
#define WORDS 20
#define LOST 1000
#define DELAY_NS 20000000
#define WORDS_THERE 4096
#define MOST_CLIENTS 900 /* libmodbus waits in select() */

static uint16_t word_at(int address)
{
	return (uint16_t)(address * 7);
}

/* ---- the server ---- */

struct client {
	uint16_t lost; /* the register of the last request that was not answered */
	int n;         /* the bytes of the request that waits for its answer, or 0 */
	int64_t due;
	uint8_t query[MODBUS_TCP_MAX_ADU_LENGTH];
};

/* The first one listens. Those that are not in use have a descriptor of -1. */
static struct pollfd fds[1 + MOST_CLIENTS];
static struct client clients[1 + MOST_CLIENTS];

static void accept_client(void)
{
	int i = 1;

	while (i <= MOST_CLIENTS && fds[i].fd >= 0)
		i++;
	if (i > MOST_CLIENTS)
		return;
	fds[i].fd = accept(fds[0].fd, NULL, NULL);
	clients[i] = (struct client){.n = 0};
}

static void read_request(modbus_t *modbus, struct client *client, struct pollfd *poll)
{
	uint16_t address;

	modbus_set_socket(modbus, poll->fd);
	client->n = modbus_receive(modbus, client->query);
	if (client->n < 0) {
		close(poll->fd);
		poll->fd = -1;
		client->n = 0;
		return;
	}
	/* After a header of 7 bytes, and a byte that says what is asked for. */
	address = (uint16_t)(client->query[8] << 8 | client->query[9]);
	client->due = sn_now() + DELAY_NS;
	if (address >= LOST && address != client->lost) {
		client->lost = address;
		client->n = 0;
	}
}

/* Returns the time until the next look for answers in ms, or -1 if there are none. */
static int send_answers(modbus_t *modbus, modbus_mapping_t *words)
{
	const int64_t now = sn_now();
	int wait = -1;

	for (int i = 1; i <= MOST_CLIENTS; i++) {
		if (clients[i].n == 0)
			continue;
		if (clients[i].due > now) {
			wait = 1;
			continue;
		}
		modbus_set_socket(modbus, fds[i].fd);
		modbus_reply(modbus, clients[i].query, clients[i].n, words);
		clients[i].n = 0;
	}
	return wait;
}

static int serve(int port)
{
	modbus_t *modbus = modbus_new_tcp("127.0.0.1", port);
	modbus_mapping_t *words = modbus_mapping_new(0, 0, WORDS_THERE, 0);
	int wait = -1;

	alarm(1800); /* in case nobody ends it */
	if (!modbus || !words)
		return 1;
	for (int i = 0; i < WORDS_THERE; i++)
		words->tab_registers[i] = word_at(i);
	for (int i = 0; i <= MOST_CLIENTS; i++)
		fds[i] = (struct pollfd){.fd = -1, .events = POLLIN};
	fds[0].fd = modbus_tcp_listen(modbus, MOST_CLIENTS);
	while (fds[0].fd >= 0 && poll(fds, 1 + MOST_CLIENTS, wait) >= 0) {
		for (int i = 1; i <= MOST_CLIENTS; i++)
			if (fds[i].revents)
				read_request(modbus, &clients[i], &fds[i]);
		if (fds[0].revents)
			accept_client();
		wait = send_answers(modbus, words);
	}
	return 1;
}

/* ---- the tasks ---- */

static int fail(modbus_t *modbus, int number, const char *what)
{
	fprintf(stderr, "%d: %s: %s\n", number, what, modbus_strerror(errno));
	modbus_close(modbus);
	modbus_free(modbus);
	return 1;
}

/* Whether the registers from the address on have been read, and are right. */
static int ask(modbus_t *modbus, int address)
{
	uint16_t words[WORDS];

	if (modbus_read_registers(modbus, address, WORDS, words) != WORDS)
		return 0;
	for (int i = 0; i < WORDS; i++)
		if (words[i] != word_at(address + i))
			return 0;
	return 1;
}

static int work(const struct crowd *crowd, int number)
{
	modbus_t *modbus = modbus_new_tcp("127.0.0.1", atoi(crowd->where));

	if (!modbus)
		return 1;
	modbus_set_error_recovery(modbus, MODBUS_ERROR_RECOVERY_LINK);
	modbus_set_response_timeout(modbus, 60, 0);
	if (modbus_connect(modbus) != 0)
		return fail(modbus, number, "connect");
	for (int i = 0; i < ROUNDS; i++) {
		if (!ask(modbus, number + i))
			return fail(modbus, number, "read");
		/* No answer comes. */
		modbus_set_response_timeout(modbus, 0, 20000);
		if (ask(modbus, LOST + number + i) || errno != ETIMEDOUT)
			return fail(modbus, number, "not ETIMEDOUT");
		modbus_set_response_timeout(modbus, 60, 0);
		if (!ask(modbus, LOST + number + i))
			return fail(modbus, number, "read again");
	}
	modbus_close(modbus);
	modbus_free(modbus);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "serve") == 0)
		return serve(atoi(argv[2]));
	return crowd_main(argc, argv, (struct crowd){.job = work});
}
