/* SPDX-License-Identifier: MIT */
/*
 * A name server that answers questions for the IPv4 addresses of a small table, and says of all
 * other names that they do not exist. Try (dig is in Debian's bind9-dnsutils):
 *
 *	example-dns-server 127.0.0.1:5300 &
 *	dig @127.0.0.1 -p 5300 one.example A
 *
 * Several tasks take questions from one socket, so that a slow answer holds up no other. The answer
 * copies the local address of the question: a resolver ignores answers that come from elsewhere,
 * and this machine may have several addresses.
 */
#include <sennit/sennit.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define WORKERS 4
#define MOST 512 /* bytes of a message without extensions (RFC 1035) */
#define HEADER 12

#define NO_ERROR 0
#define FORMAT_ERROR 1
#define NO_SUCH_NAME 3
#define NOT_IMPLEMENTED 4

#define TYPE_A 1
#define CLASS_IN 1

static const struct {
	const char *name;
	unsigned char address[4];
} table[] = {
	{"one.example", {192, 0, 2, 1}},
	{"two.example", {192, 0, 2, 2}},
	{"localhost", {127, 0, 0, 1}},
};

static unsigned get16(const unsigned char *at)
{
	return (unsigned)at[0] << 8 | at[1];
}

static void put16(unsigned char *at, unsigned value)
{
	at[0] = (unsigned char)(value >> 8);
	at[1] = (unsigned char)value;
}

/* Reads the name of the question as text. Returns the offset after it, or 0 if it is malformed. */
static size_t read_name(const unsigned char *message, size_t size, char name[256])
{
	size_t at = HEADER, length = 0;

	while (at < size && message[at] != 0) {
		const size_t label = message[at++];

		/* A label of 64 or more would be a reference to an earlier name, but there is
		 * none. */
		if (label > 63 || at + label >= size || length + label + 1 > 255)
			return 0;
		if (length > 0)
			name[length++] = '.';
		memcpy(name + length, message + at, label);
		length += label;
		at += label;
	}
	name[length] = 0;
	return at < size ? at + 1 : 0;
}

/* Makes the answer in place of the question, after which there is room. Returns its size; 0 for
 * what deserves none. */
static size_t answer(unsigned char *message, size_t size)
{
	const unsigned char *address = NULL;
	unsigned code = NO_ERROR, answers = 0;
	char name[256];
	size_t end;

	if (size < HEADER || message[2] & 0x80) /* an answer itself */
		return 0;
	end = read_name(message, size, name);
	if (end == 0 || end + 4 > size || get16(message + 4) != 1) {
		code = FORMAT_ERROR;
		end = 0;
	} else if (message[2] & 0x78) {
		code = NOT_IMPLEMENTED;
		end += 4;
	} else {
		const bool wanted =
			get16(message + end) == TYPE_A && get16(message + end + 2) == CLASS_IN;

		code = NO_SUCH_NAME;
		for (size_t i = 0; i < sizeof table / sizeof *table; i++)
			if (strcasecmp(table[i].name, name) == 0) {
				code = NO_ERROR;
				address = wanted ? table[i].address : NULL;
			}
		end += 4;
	}
	if (address) {
		static const unsigned char head[] = {0xc0, HEADER, 0, TYPE_A, 0, CLASS_IN,
						     0,    0,      0, 60,     0, 4};

		memcpy(message + end, head, sizeof head); /* the name, and 60 seconds to live */
		memcpy(message + end + sizeof head, address, 4);
		end += sizeof head + 4;
		answers = 1;
	}
	message[2] = (unsigned char)(0x84 | (message[2] & 0x79)); /* an answer, authoritative */
	message[3] = (unsigned char)code;
	put16(message + 4, end ? 1 : 0);
	put16(message + 6, answers);
	put16(message + 8, 0);
	put16(message + 10, 0);
	return end ? end : HEADER;
}

static int work(void *arg)
{
	unsigned char buf[MOST + 16];
	sn_udp *udp = arg;
	int n;

	for (;;) {
		struct sn_udp_message message = {.data = buf, .size = MOST};

		n = sn_udp_recv_messages(udp, &message, 1);
		if (n < 0)
			return n;
		if (message.flags & SN_UDP_TRUNCATED)
			continue;
		message.size = answer(buf, message.length);
		/* A client that is gone is no reason to stop. */
		if (message.size > 0)
			(void)!sn_udp_send_messages(udp, &message, 1);
	}
}

static int serve(void *arg)
{
	const struct sn_udp_options options = SN_UDP_OPTIONS_INIT(.flags = SN_UDP_PACKET_INFO);
	char text[SN_ADDRESS_MAX];
	sn_scope *scope;
	sn_udp *udp;
	int err = sn_udp_open(&udp, arg, &options);

	if (err < 0)
		return err;
	if (sn_udp_local_address(udp, text, sizeof text) > 0)
		printf("listening on %s\n", text);
	fflush(stdout);
	err = sn_scope_open(&scope, SN_NO_DEADLINE);
	for (int i = 0; i < WORKERS && err == 0; i++)
		err = sn_scope_go(scope, work, udp);
	if (err == 0)
		err = sn_scope_close(scope);
	sn_udp_close(udp);
	return err;
}

int main(int argc, char **argv)
{
	char usual[] = "127.0.0.1:5300";
	char *address = argc > 1 ? argv[1] : usual;
	int err = sn_run(serve, address);

	fprintf(stderr, "dns-server: %s: %s\n", address, strerror(-err));
	return 1;
}
