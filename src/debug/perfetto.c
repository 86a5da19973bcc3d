/* SPDX-License-Identifier: MIT */
#include "debug/perfetto.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sennit/clock.h>

/* The numbers of fields in perfetto_trace.proto, by message. */
enum {
	TRACE_PACKET = 1,

	PACKET_CLOCK_SNAPSHOT = 6,
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_INTERNED_DATA = 12,
	PACKET_FLAGS = 13,
	PACKET_DEFAULTS = 59,
	PACKET_TRACK_DESCRIPTOR = 60,

	DEFAULTS_CLOCK = 58,

	SNAPSHOT_CLOCK = 1,
	SNAPSHOT_PRIMARY = 2,
	CLOCK_ID = 1,
	CLOCK_TIMESTAMP = 2,

	INTERNED_CATEGORY = 1,
	INTERNED_NAME = 2,
	INTERNED_DETAIL = 3,
	INTERNED_NUMBER = 1,
	INTERNED_TEXT = 2,

	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PROCESS = 3,
	TRACK_PARENT = 5,
	TRACK_COUNTER = 8,
	PROCESS_PID = 1,
	PROCESS_NAME = 6,

	EVENT_CATEGORY_NUMBER = 3,
	EVENT_DETAIL = 4,
	EVENT_TYPE = 9,
	EVENT_NAME_NUMBER = 10,
	EVENT_TRACK = 11,
	EVENT_NAME = 23,
	EVENT_COUNTER_VALUE = 30,
	EVENT_FLOW = 47,
	EVENT_LAST_FLOW = 48,
	DETAIL_NAME_NUMBER = 1,
	DETAIL_UINT = 3,
	DETAIL_INT = 4,
};

/* Flags of a packet: interned data from before is to be forgotten; the packet needs interned
 * data. */
#define STATE_CLEARED 1
#define STATE_NEEDED 2

/* The trace has only one sequence of packets. */
#define SEQUENCE 1

/* perfetto's numbers of the clocks are the kernel's, as far as they matter here. */
_Static_assert(CLOCK_MONOTONIC == 1 && CLOCK_BOOTTIME == 7, "");
#define PERFETTO_REALTIME 1
#define PERFETTO_MONOTONIC 3
#define PERFETTO_BOOTTIME 6

/* ---- parts of messages ---- */

/* Enough room for everything that an event can have. */
#define MESSAGE_BYTES 512

/* Strings have to be UTF-8, but a name may be any bytes: bytes outside ASCII are replaced. */
static void put_text(struct sn_proto *message, unsigned field, const char *text)
{
	char clean[SN_TRACE_STRING_MAX];
	size_t length = strnlen(text, sizeof clean);

	for (size_t i = 0; i < length; i++)
		clean[i] = (char)(text[i] < ' ' || text[i] > '~' ? '?' : text[i]);
	sn_proto_bytes(message, field, clean, length);
}

/* ---- packets ---- */

static void send(struct sn_packets *packets, struct sn_proto *packet, unsigned flags)
{
	sn_proto_number(packet, PACKET_SEQUENCE, SEQUENCE);
	sn_proto_number(packet, PACKET_FLAGS, flags);
	sn_proto_out_message(&packets->out, TRACE_PACKET, packet);
}

static void put_clock(struct sn_proto *snapshot, unsigned id, int64_t time)
{
	SN_PROTO(clock, MESSAGE_BYTES);

	sn_proto_number(&clock, CLOCK_ID, id);
	sn_proto_number(&clock, CLOCK_TIMESTAMP, (uint64_t)time);
	sn_proto_message(snapshot, SNAPSHOT_CLOCK, &clock);
}

/* Allows viewers to compare the times with those of other traces of the machine. */
static void send_clocks(struct sn_packets *packets)
{
	SN_PROTO(packet, MESSAGE_BYTES);
	SN_PROTO(snapshot, MESSAGE_BYTES);
	SN_PROTO(defaults, MESSAGE_BYTES);
	struct sn_timespec boot;

	put_clock(&snapshot, PERFETTO_MONOTONIC, sn_now());
	if (sn_clock_gettime(CLOCK_BOOTTIME, &boot) == 0)
		put_clock(&snapshot, PERFETTO_BOOTTIME, boot.tv_sec * 1000000000 + boot.tv_nsec);
	put_clock(&snapshot, PERFETTO_REALTIME, sn_walltime());
	sn_proto_number(&snapshot, SNAPSHOT_PRIMARY, PERFETTO_MONOTONIC);
	sn_proto_message(&packet, PACKET_CLOCK_SNAPSHOT, &snapshot);
	send(packets, &packet, STATE_CLEARED);

	packet.used = 0;
	sn_proto_number(&defaults, DEFAULTS_CLOCK, PERFETTO_MONOTONIC);
	sn_proto_message(&packet, PACKET_DEFAULTS, &defaults);
	send(packets, &packet, STATE_CLEARED | STATE_NEEDED);
}

static void put_interned(struct sn_proto *packet, unsigned kind, uint64_t number, const char *text)
{
	SN_PROTO(one, MESSAGE_BYTES);
	SN_PROTO(data, MESSAGE_BYTES);

	sn_proto_number(&one, INTERNED_NUMBER, number);
	put_text(&one, INTERNED_TEXT, text);
	sn_proto_message(&data, kind, &one);
	sn_proto_message(packet, PACKET_INTERNED_DATA, &data);
}

static void send_interned(struct sn_packets *packets, unsigned kind, uint64_t number,
			  const char *text)
{
	SN_PROTO(packet, MESSAGE_BYTES);

	put_interned(&packet, kind, number, text);
	send(packets, &packet, STATE_NEEDED);
}

void sn_packets_begin(struct sn_packets *packets, int fd, const char *const *names, size_t count)
{
	static const char *const categories[SN_CATEGORIES] = {
		[SN_CATEGORY_TASK] = "task",
		[SN_CATEGORY_PROCESSOR] = "processor",
		[SN_CATEGORY_USER] = "user",
	};
	static const char *const details[SN_DETAILS] = {
		[SN_DETAIL_TASK] = "task",         [SN_DETAIL_PROCESSOR] = "processor",
		[SN_DETAIL_WOKEN_BY] = "woken_by", [SN_DETAIL_SPAWNED_BY] = "spawned_by",
		[SN_DETAIL_COUNT] = "count",       [SN_DETAIL_VALUE] = "value",
	};

	packets->out.fd = fd;
	packets->out.error = 0;
	packets->out.used = 0;
	send_clocks(packets);
	for (unsigned i = 1; i < SN_CATEGORIES; i++)
		send_interned(packets, INTERNED_CATEGORY, i, categories[i]);
	for (unsigned i = 1; i < SN_DETAILS; i++)
		send_interned(packets, INTERNED_DETAIL, i, details[i]);
	for (size_t i = 0; i < count; i++)
		send_interned(packets, INTERNED_NAME, i + 1, names[i]);
}

/* Does not use fopen(), which takes memory from the heap. */
static void read_program_name(char *name, size_t size)
{
	int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, name, size - 1);

	if (fd >= 0)
		close(fd);
	if (length <= 0)
		length = snprintf(name, size, "sennit");
	name[length] = 0;
	name[strcspn(name, "\n")] = 0;
}

void sn_packets_track(struct sn_packets *packets, uint64_t track, uint64_t parent,
		      enum sn_track_kind kind, const char *name)
{
	SN_PROTO(packet, MESSAGE_BYTES);
	SN_PROTO(descriptor, MESSAGE_BYTES);
	SN_PROTO(inner, MESSAGE_BYTES);
	char program[32];

	sn_proto_number(&descriptor, TRACK_UUID, track);
	if (parent)
		sn_proto_number(&descriptor, TRACK_PARENT, parent);
	if (kind == SN_TRACK_PROCESS) {
		sn_proto_number(&inner, PROCESS_PID, (uint64_t)getpid());
		read_program_name(program, sizeof program);
		put_text(&inner, PROCESS_NAME, program);
		sn_proto_message(&descriptor, TRACK_PROCESS, &inner);
	} else {
		put_text(&descriptor, TRACK_NAME, name);
	}
	if (kind == SN_TRACK_COUNTER)
		sn_proto_message(&descriptor, TRACK_COUNTER, &inner);
	sn_proto_message(&packet, PACKET_TRACK_DESCRIPTOR, &descriptor);
	send(packets, &packet, STATE_NEEDED);
}

static void put_name(struct sn_proto *packet, struct sn_proto *event, struct sn_trace_name name)
{
	if (name.number == 0 && name.text) {
		put_text(event, EVENT_NAME, name.text);
		return;
	}
	if (name.number)
		sn_proto_number(event, EVENT_NAME_NUMBER, name.number);
	if (name.number && name.text)
		put_interned(packet, INTERNED_NAME, name.number, name.text);
}

static void put_details(struct sn_proto *message, const struct sn_event *event)
{
	for (size_t i = 0; i < sizeof event->details / sizeof event->details[0]; i++) {
		SN_PROTO(detail, MESSAGE_BYTES);

		if (!event->details[i].kind)
			continue;
		sn_proto_number(&detail, DETAIL_NAME_NUMBER, event->details[i].kind);
		sn_proto_number(&detail,
				event->details[i].kind == SN_DETAIL_VALUE ? DETAIL_INT
									  : DETAIL_UINT,
				event->details[i].value);
		sn_proto_message(message, EVENT_DETAIL, &detail);
	}
}

void sn_packets_event(struct sn_packets *packets, const struct sn_event *event)
{
	SN_PROTO(packet, MESSAGE_BYTES);
	SN_PROTO(inner, MESSAGE_BYTES);

	if (packets->out.error)
		return;
	sn_proto_number(&packet, PACKET_TIMESTAMP, (uint64_t)event->time);
	sn_proto_number(&inner, EVENT_TYPE, event->type);
	sn_proto_number(&inner, EVENT_TRACK, event->track);
	if (event->category)
		sn_proto_number(&inner, EVENT_CATEGORY_NUMBER, event->category);
	put_name(&packet, &inner, event->name);
	put_details(&inner, event);
	if (event->type == SN_EVENT_COUNTER)
		sn_proto_number(&inner, EVENT_COUNTER_VALUE, (uint64_t)event->value);
	if (event->flow_from)
		sn_proto_fixed(&inner, EVENT_FLOW, event->flow_from);
	if (event->flow_to)
		sn_proto_fixed(&inner, EVENT_LAST_FLOW, event->flow_to);
	sn_proto_message(&packet, PACKET_TRACK_EVENT, &inner);
	send(packets, &packet, STATE_NEEDED);
}

int sn_packets_end(struct sn_packets *packets)
{
	return sn_proto_out_end(&packets->out);
}
