/* SPDX-License-Identifier: MIT */
/*
 * Many connections over one UDP socket, as in QUIC. A datagram begins with the eight bytes of its
 * connection's id, and its source does not matter, so a client may change its address. One task
 * receives and passes each datagram through a channel to the task of its connection. That task
 * counts the bytes of its connection and answers "N bytes", through another channel to one task
 * that sends the answers in batches. A connection that is idle for ten seconds ends. Try:
 *
 *	example-udp-fan-out 127.0.0.1:5301 &
 *	python3 -c 'import socket; s = socket.socket(type=socket.SOCK_DGRAM); [(s.sendto(
 *	b"12345678hello", ("127.0.0.1", 5301)), print(s.recv(99))) for i in range(3)]'
 */
#include <sennit/sennit.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID_SIZE 8
#define ROOM 1500
#define BATCH 32
#define MOST_CONNECTIONS 1024
#define IDLE_NS 10000000000

struct packet {
	struct sn_address peer;
	size_t size;
	char bytes[ROOM];
};

/* Each connection has a task. The task and the table hold a reference each to the channel. */
struct connection {
	sn_chan *packets; /* of struct packet * */
	sn_chan *answers; /* the server's */
};

struct entry {
	char id[ID_SIZE];
	sn_chan *packets; /* NULL: free */
};

struct server {
	sn_udp *udp;
	sn_scope *scope;
	sn_chan *answers; /* of struct packet * */
	struct entry entries[MOST_CONNECTIONS];
};

/* ---- a connection ---- */

/* Writes the answer into the packet, and passes the packet on to the task that sends. */
static void reply(struct connection *connection, struct packet *packet, size_t total)
{
	const size_t room = ROOM - ID_SIZE;

	packet->size =
		ID_SIZE + (size_t)snprintf(packet->bytes + ID_SIZE, room, "%zu bytes", total);
	if (sn_chan_send(connection->answers, &packet) < 0)
		free(packet);
}

/* The connection's task. Once the connection has been idle, the task closes the channel, so that
 * nothing more is put into it, and answers what came before that. */
static int converse(void *arg)
{
	struct connection *connection = arg;
	int64_t deadline = sn_now() + IDLE_NS;
	struct packet *packet;
	size_t total = 0;
	int err;

	while ((err = sn_chan_recv_until(connection->packets, &packet, deadline)) != -EPIPE) {
		if (err == 0) {
			total += packet->size - ID_SIZE;
			reply(connection, packet, total);
			deadline = sn_now() + IDLE_NS;
		} else {
			sn_chan_close(connection->packets);
			deadline = SN_TRY;
		}
		if (sn_cancelled() < 0)
			break;
	}
	sn_chan_unref(connection->packets);
	free(connection);
	return 0;
}

/* Starts a connection's task in the table's entry. */
static int start(struct server *server, struct entry *entry, const char *id)
{
	struct connection *connection = malloc(sizeof *connection);
	int err;

	if (!connection)
		return -ENOMEM;
	err = sn_chan_new(&entry->packets, sizeof(struct packet *), BATCH);
	if (err < 0) {
		free(connection);
		return err;
	}
	memcpy(entry->id, id, ID_SIZE);
	*connection = (struct connection){sn_chan_ref(entry->packets), server->answers};
	err = sn_scope_go(server->scope, converse, connection);
	if (err == 0)
		return 0;
	sn_chan_unref(entry->packets);
	sn_chan_unref(entry->packets);
	entry->packets = NULL;
	free(connection);
	return err;
}

/* ---- the socket ---- */

/* Passes the packet to its connection, which may have to be started. Takes ownership of the
 * packet. */
static void pass_on(struct server *server, struct packet *packet)
{
	unsigned hash = 0;
	struct entry *entry;
	int err;

	if (packet->size < ID_SIZE) {
		free(packet);
		return;
	}
	for (int i = 0; i < ID_SIZE; i++)
		hash = hash * 31 + (unsigned char)packet->bytes[i];
	entry = &server->entries[hash % MOST_CONNECTIONS];
	/* Two connections whose ids share an entry: a real server would keep both. */
	if (entry->packets && memcmp(entry->id, packet->bytes, ID_SIZE) != 0) {
		sn_chan_close(entry->packets);
		sn_chan_unref(entry->packets);
		entry->packets = NULL;
	}
	err = entry->packets ? sn_chan_try_send(entry->packets, &packet) : -EPIPE;
	if (err == -EPIPE) { /* there is no connection, or it has ended */
		sn_chan_unref(entry->packets);
		entry->packets = NULL;
		err = start(server, entry, packet->bytes);
		if (err == 0)
			err = sn_chan_try_send(entry->packets, &packet);
	}
	if (err < 0) /* the channel is full, or there is no memory */
		free(packet);
}

static int receive(struct server *server)
{
	struct sn_udp_message messages[BATCH];
	struct packet *packets[BATCH] = {NULL};

	for (;;) {
		int n;

		for (int i = 0; i < BATCH; i++) {
			if (!packets[i] && !(packets[i] = malloc(sizeof *packets[i])))
				return -ENOMEM;
			messages[i].data = packets[i]->bytes;
			messages[i].size = ROOM;
		}
		n = sn_udp_recv_messages(server->udp, messages, BATCH);
		if (n < 0)
			return n;
		for (int i = 0; i < n; i++) {
			if (messages[i].flags & SN_UDP_TRUNCATED)
				continue;
			packets[i]->size = messages[i].length;
			packets[i]->peer = messages[i].peer;
			pass_on(server, packets[i]);
			packets[i] = NULL;
		}
	}
}

/* Sends answers, as many in one call as there are. */
static int send_answers(void *arg)
{
	struct server *server = arg;
	struct sn_udp_message messages[BATCH];
	struct packet *packets[BATCH];
	size_t n;
	int err;

	while ((err = sn_chan_recv(server->answers, &packets[0])) == 0) {
		for (n = 1; n < BATCH; n++)
			if (sn_chan_try_recv(server->answers, &packets[n]) < 0)
				break;
		for (size_t i = 0; i < n; i++)
			messages[i] = (struct sn_udp_message){.data = packets[i]->bytes,
							      .size = packets[i]->size,
							      .peer = packets[i]->peer};
		/* An answer that cannot be sent does not keep the others back. */
		for (size_t done = 0; done < n;) {
			int sent = sn_udp_send_messages(server->udp, messages + done, n - done);

			done += sent > 0 ? (size_t)sent : 1;
		}
		for (size_t i = 0; i < n; i++)
			free(packets[i]);
	}
	return err;
}

static int serve(void *arg)
{
	static struct server server;
	char text[SN_ADDRESS_MAX];
	int err = sn_udp_open(&server.udp, arg, NULL);

	if (err < 0)
		return err;
	if (sn_udp_local_address(server.udp, text, sizeof text) > 0)
		printf("listening on %s\n", text);
	fflush(stdout);
	err = sn_chan_new(&server.answers, sizeof(struct packet *), BATCH);
	if (err == 0)
		err = sn_scope_open(&server.scope, SN_NO_DEADLINE);
	if (err == 0) {
		err = sn_scope_go(server.scope, send_answers, &server);
		if (err == 0)
			err = receive(&server);
		sn_scope_cancel(server.scope);
		sn_scope_close(server.scope);
	}
	sn_udp_close(server.udp);
	return err;
}

int main(int argc, char **argv)
{
	char usual[] = "127.0.0.1:5301";
	char *address = argc > 1 ? argv[1] : usual;
	int err = sn_run(serve, address);

	fprintf(stderr, "udp-fan-out: %s: %s\n", address, strerror(-err));
	return 1;
}
