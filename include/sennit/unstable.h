/* SPDX-License-Identifier: MIT */
/*
 * Tuning that sennit-relay needs. UNSTABLE: what is here may change or disappear in any version,
 * and old forms are not kept. It should become automatic where possible. sennit.h does not include
 * it.
 *
 * Threads outside the runtime: none; sn_tcp_connect_to_write() returns -ENOTSUP. Signal handlers:
 * none.
 */
#ifndef SENNIT_UNSTABLE_H
#define SENNIT_UNSTABLE_H

#include <sennit/base.h>
#include <sennit/relay.h>
#include <sennit/task.h>
#include <sennit/tcp.h>

SN_BEGIN

/*
 * In flags of struct sn_task_attr, a promise: from one wait to the next the task computes for some
 * tens of microseconds at most, as a task that serves a connection does, and it does not block its
 * thread, not even inside a blocking bracket. The runtime then leaves a few such tasks to one
 * thread: it wakes no other thread for them, nor to serve the network and the timers while they
 * run. If the promise is not kept, network and timers wait.
 */
#define SN_TASK_BRIEF 1u

/*
 * sn_tcp_connect() for a caller that has bytes at hand and writes them as soon as it is connected.
 * The last packet of the handshake waits for these bytes and carries them. That saves a packet, and
 * a peer that waits in accept() learns of the connection only when there is something to read. It
 * is not for protocols in which the server speaks first, unless the caller writes without waiting
 * for that: when nothing is written, the packet leaves 200 ms after the peer has answered. An
 * answer is acknowledged as usual.
 */
SN_API SN_CHECK_RESULT int sn_tcp_connect_to_write(sn_tcp **conn, const char *address,
						   int64_t deadline);

/* Whether a relay coalesces the small pieces of a stream (relay.h). */
enum sn_relay_coalesce {
	/* When many pieces came soon after one another and nothing went in the other direction in
	 * between, so that the receiver does not seem to wait for them. */
	SN_RELAY_COALESCE_AUTO = 0,
	SN_RELAY_COALESCE_NEVER = 1,
	SN_RELAY_COALESCE_ALWAYS = 2, /* whenever one piece follows another */
};

/* In struct sn_relay_options. Zero is the default, except for the size. */
struct sn_relay_tuning {
	/* Set by SN_RELAY_TUNING_INIT(). */
	size_t size SN_SIZE_OF(struct sn_relay_tuning);
	/* 1: the caller closes both streams immediately when the relay has finished. Then that
	 * close passes on the end of the stream that ended last, which saves a system call. */
	int closing;
	enum sn_relay_coalesce coalesce; /* whether small pieces of a stream wait for more */
};

/* struct sn_relay_tuning with its size, and the fields that are given, as .name = value. */
#define SN_RELAY_TUNING_INIT(...) SN_SIZED_INIT(struct sn_relay_tuning, __VA_ARGS__)

SN_END

#endif
