/* SPDX-License-Identifier: MIT */
/*
 * Protobuf: messages that are built field by field, and the descriptor to which they are written.
 *
 * Contract. A message must have room for everything that is put into it, which debug builds check.
 * Nothing is allocated. After an error of write() nothing more is written. All state is the
 * caller's.
 */
#ifndef SENNIT_DEBUG_PROTOBUF_H
#define SENNIT_DEBUG_PROTOBUF_H

#include <stddef.h>
#include <stdint.h>

struct sn_proto {
	size_t used, room;
	uint8_t *bytes;
};

/* Declares a message with `size` bytes of room. */
#define SN_PROTO(name, size)          \
	uint8_t name##_bytes[(size)]; \
	struct sn_proto name = {.room = (size), .bytes = name##_bytes}

void sn_proto_varint(struct sn_proto *message, uint64_t value);
void sn_proto_number(struct sn_proto *message, unsigned field, uint64_t value);
/* A value of 64 bits, in eight bytes, the lowest first. */
void sn_proto_fixed(struct sn_proto *message, unsigned field, uint64_t value);
void sn_proto_bytes(struct sn_proto *message, unsigned field, const void *bytes, size_t count);
void sn_proto_message(struct sn_proto *message, unsigned field, const struct sn_proto *inner);

struct sn_proto_out {
	int fd;
	int error; /* 0 or a negative errno */
	size_t used;
	uint8_t buffer[(size_t)64 << 10];
};

void sn_proto_out_number(struct sn_proto_out *out, unsigned field, uint64_t value);
/* Protobuf's strings must be UTF-8, but names may be any bytes: if one is not UTF-8, bytes outside
 * ASCII are replaced. */
void sn_proto_out_text(struct sn_proto_out *out, unsigned field, const char *text);
void sn_proto_out_message(struct sn_proto_out *out, unsigned field, const struct sn_proto *message);

/* Writes the rest. Returns 0, or the error of write(). */
int sn_proto_out_end(struct sn_proto_out *out);

#endif
