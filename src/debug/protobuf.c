/* SPDX-License-Identifier: MIT */
#include "debug/protobuf.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "arch/compiler.h"

/* The wire types of fields. */
enum { VARINT = 0, FIXED = 1, BYTES = 2 };

/* The largest head of a field. */
#define HEAD 20

static void put_byte(struct sn_proto *message, unsigned byte)
{
	SN_ASSERT(message->used < message->room);
	message->bytes[message->used++] = (uint8_t)byte;
}

void sn_proto_varint(struct sn_proto *message, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		put_byte(message, (unsigned)(value & 0x7f) | 0x80);
	put_byte(message, (unsigned)value);
}

void sn_proto_number(struct sn_proto *message, unsigned field, uint64_t value)
{
	sn_proto_varint(message, (uint64_t)field << 3 | VARINT);
	sn_proto_varint(message, value);
}

void sn_proto_fixed(struct sn_proto *message, unsigned field, uint64_t value)
{
	sn_proto_varint(message, (uint64_t)field << 3 | FIXED);
	for (int i = 0; i < 8; i++)
		put_byte(message, (unsigned)(value >> 8 * i) & 0xff);
}

void sn_proto_bytes(struct sn_proto *message, unsigned field, const void *bytes, size_t count)
{
	sn_proto_varint(message, (uint64_t)field << 3 | BYTES);
	sn_proto_varint(message, count);
	SN_ASSERT(count <= message->room - message->used);
	memcpy(message->bytes + message->used, bytes, count);
	message->used += count;
}

void sn_proto_message(struct sn_proto *message, unsigned field, const struct sn_proto *inner)
{
	sn_proto_bytes(message, field, inner->bytes, inner->used);
}

/* ---- the descriptor ---- */

static void flush(struct sn_proto_out *out)
{
	const uint8_t *at = out->buffer;

	while (out->used > 0 && !out->error) {
		ssize_t written = write(out->fd, at, out->used);
		struct pollfd writable = {.fd = out->fd, .events = POLLOUT};

		if (written > 0) {
			at += written;
			out->used -= (size_t)written;
		} else if (written == 0) {
			out->error = -EIO;
		} else if (errno == EAGAIN) {
			poll(&writable, 1, -1);
		} else if (errno != EINTR) {
			out->error = -errno;
		}
	}
	out->used = 0;
}

static void put(struct sn_proto_out *out, uint8_t byte)
{
	out->buffer[out->used++] = byte;
}

static void put_varint(struct sn_proto_out *out, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		put(out, (uint8_t)(value & 0x7f) | 0x80);
	put(out, (uint8_t)value);
}

static void make_room(struct sn_proto_out *out, size_t bytes)
{
	if (out->used + HEAD + bytes > sizeof out->buffer)
		flush(out);
}

void sn_proto_out_number(struct sn_proto_out *out, unsigned field, uint64_t value)
{
	make_room(out, 0);
	put_varint(out, (uint64_t)field << 3 | VARINT);
	put_varint(out, value);
}

void sn_proto_out_message(struct sn_proto_out *out, unsigned field, const struct sn_proto *message)
{
	make_room(out, message->used);
	put_varint(out, (uint64_t)field << 3 | BYTES);
	put_varint(out, message->used);
	memcpy(out->buffer + out->used, message->bytes, message->used);
	out->used += message->used;
}

/* Whether the text is UTF-8, without a check for overlong forms and the like. */
static bool is_utf8(const unsigned char *text, size_t length)
{
	size_t more = 0;

	for (size_t i = 0; i < length; i++) {
		const unsigned char c = text[i];

		if ((c & 0xc0) == 0x80 ? more == 0 : more > 0)
			return false;
		if ((c & 0xc0) == 0x80)
			more--;
		else if (c >= 0xf8)
			return false;
		else if (c >= 0xc0)
			more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
	}
	return more == 0;
}

void sn_proto_out_text(struct sn_proto_out *out, unsigned field, const char *text)
{
	/* The longest texts are names of files. */
	const size_t length = strnlen(text, 4096);
	const unsigned char *bytes = (const unsigned char *)text;
	const unsigned most = is_utf8(bytes, length) ? 0xff : '~';

	make_room(out, length);
	put_varint(out, (uint64_t)field << 3 | BYTES);
	put_varint(out, length);
	for (size_t i = 0; i < length; i++)
		put(out, bytes[i] < ' ' || bytes[i] > most ? '?' : bytes[i]);
}

int sn_proto_out_end(struct sn_proto_out *out)
{
	flush(out);
	return out->error;
}
