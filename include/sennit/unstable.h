/* SPDX-License-Identifier: MIT */
/*
 * Tuning that sennit-relay needs. UNSTABLE: what is here may change or go in any version, without its
 * old form being kept, and is to become automatic where it can. sennit.h does not include it.
 *
 * Threads outside the runtime: none. Signal handlers: none.
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
 * tens of microseconds at most, as one that serves a connection, and it does not block its thread, not
 * even inside a blocking bracket. Then few such tasks are left to one thread, and no other is woken
 * for them, nor to look after the network and the timers meanwhile: these wait if the promise is not
 * kept.
 */
#define SN_TASK_BRIEF 1u

/*
 * sn_tcp_connect() for a caller that has bytes at hand and writes them as soon as it is connected: the
 * last packet of the handshake waits for them and goes with them. That is a packet less, and a peer
 * that waits in accept() is told of the connection when there is something to read. Not for protocols
 * in which the server speaks first, unless the caller does not wait for that: when nothing is written
 * the packet goes by itself, 200 ms after the peer has answered. An answer is acknowledged as usual.
 */
SN_API int sn_tcp_connect_to_write(sn_tcp **conn, const char *address, int64_t deadline);

/* Whether a relay lets the small pieces of a stream gather: relay.h. */
enum sn_relay_gather {
	/* When many came soon after one another and nothing went in the other direction meanwhile,
	 * so that nobody seems to wait for them. */
	SN_RELAY_GATHER_AUTO = 0,
	SN_RELAY_GATHER_NEVER = 1,
	SN_RELAY_GATHER_ALWAYS = 2, /* whatever follows another piece */
};

/* In struct sn_relay_options. Zero is the default. Read until sn_relay() returns. */
struct sn_relay_tuning {
	/* 1: the caller closes both streams at once when the relay has finished. Then the end of the
	 * stream that ended last is passed on by that, which saves a system call. */
	int closing;
	enum sn_relay_gather gather; /* whether small pieces of a stream wait for more */
};

SN_END

#endif
