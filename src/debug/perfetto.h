/* SPDX-License-Identifier: MIT */
/*
 * A trace in Perfetto's native format: packets of TrackEvent (perfetto_trace.proto).
 *
 * Contract. The caller describes a track before the first event on it. Events may come in any
 * order, except that those of one track with the same time must come in the order in which they are
 * to be shown. Times are CLOCK_MONOTONIC's. Nothing is allocated. After an error of write() nothing
 * more is written.
 *
 * A string that recurs is sent once and has a number from then on (struct sn_trace_name). The
 * caller chooses the numbers, and must not use one twice. All state is the caller's.
 */
#ifndef SENNIT_DEBUG_PERFETTO_H
#define SENNIT_DEBUG_PERFETTO_H

#include <stddef.h>
#include <stdint.h>

#include "debug/protobuf.h"

/* Longer strings are cut. */
#define SN_TRACE_STRING_MAX 127

struct sn_packets {
	struct sn_proto_out out;
};

struct sn_trace_name {
	uint64_t number;  /* 0 if the text is sent as it is, each time */
	const char *text; /* NULL if it was sent before, by sn_packets_begin() or with an event */
};

enum sn_event_type {
	SN_EVENT_BEGIN = 1,
	SN_EVENT_END = 2,
	SN_EVENT_INSTANT = 3,
	SN_EVENT_COUNTER = 4,
};

enum sn_event_category {
	SN_CATEGORY_TASK = 1,
	SN_CATEGORY_PROCESSOR,
	SN_CATEGORY_USER,
	SN_CATEGORIES,
};

/* The kinds of details that an event has besides its name. */
enum sn_event_detail {
	SN_DETAIL_TASK = 1,
	SN_DETAIL_PROCESSOR,
	SN_DETAIL_WOKEN_BY,
	SN_DETAIL_SPAWNED_BY,
	SN_DETAIL_COUNT,
	SN_DETAIL_VALUE, /* signed */
	SN_DETAILS,
};

struct sn_event {
	int64_t time;
	uint64_t track;
	enum sn_event_type type;
	enum sn_event_category category; /* 0 if it has none */
	struct sn_trace_name name;       /* SN_EVENT_END and SN_EVENT_COUNTER have none */
	uint64_t flow_from, flow_to;     /* arrows that begin and end here; 0 for none */
	int64_t value;                   /* of a counter */
	struct {
		enum sn_event_detail kind; /* 0 if there is no detail */
		uint64_t value;
	} details[2];
};

enum sn_track_kind {
	SN_TRACK_PLAIN,
	SN_TRACK_PROCESS, /* the root of all others; it has the name of this process */
	SN_TRACK_COUNTER,
};

/* Begins a trace, and sends the names, which get the numbers from 1 on. */
void sn_packets_begin(struct sn_packets *packets, int fd, const char *const *names, size_t count);
void sn_packets_track(struct sn_packets *packets, uint64_t track, uint64_t parent,
		      enum sn_track_kind kind, const char *name);
void sn_packets_event(struct sn_packets *packets, const struct sn_event *event);

/* Returns 0, or the error. */
int sn_packets_end(struct sn_packets *packets);

#endif
