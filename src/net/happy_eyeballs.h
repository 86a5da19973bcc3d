/* SPDX-License-Identifier: MIT */
/*
 * Connecting to the first of several addresses that answers: "happy eyeballs", RFC 8305.
 *
 * The attempts begin one after the other, 250 ms apart, in the order of the list, but alternating
 * between the family of its first address and the others. If an attempt fails, the next one begins
 * immediately. The first that succeeds wins, and the others are closed. An address that drops
 * packets therefore costs 250 ms, a family that does not work costs 250 ms once, and an address
 * that refuses costs one round trip.
 *
 * If the deadline is too near for that, the attempts begin at shorter intervals, but at least 100
 * ms apart.
 *
 * Descriptors. At most SN_HAPPY_EYEBALLS_MOST attempts are under way. A further attempt replaces
 * the oldest, which has then had two seconds. If there is no descriptor for an attempt, it begins
 * when another attempt has ended, or after 250 ms.
 */
#ifndef SENNIT_NET_HAPPY_EYEBALLS_H
#define SENNIT_NET_HAPPY_EYEBALLS_H

#include <stdbool.h>
#include <stdint.h>

#include <sennit/resolve.h>

#define SN_HAPPY_EYEBALLS_MOST 8
#define SN_HAPPY_EYEBALLS_INTERVAL_NS 250000000
#define SN_HAPPY_EYEBALLS_LEAST_INTERVAL_NS 100000000

struct sn_fd;

/*
 * Races the attempts, and returns 0 with the winner, which is still to be registered with epoll.
 * Errors: -ETIMEDOUT at the deadline; the reason for which the task's scope was cancelled; -EMFILE,
 * -ENFILE, -ENOMEM, -ENOBUFS if not even one attempt can begin; -ENOMEM or -ENOSPC if it is not
 * possible to wait.
 *
 * If all attempts have failed, the error is the most useful one: a peer's answer, such as
 * -ECONNREFUSED; otherwise an error on the way to a peer, such as -EHOSTUNREACH or -ETIMEDOUT;
 * otherwise that there is no route, such as -ENETUNREACH. If several attempts failed with errors of
 * the same rank, the first of them is returned.
 *
 * to_write: see sn_tcp_connect_to_write(). Inside the runtime. Parks.
 */
int sn_happy_eyeballs(struct sn_fd **out, const sn_resolved *to, int64_t deadline, bool to_write);

/* Begins one attempt, which is not registered with epoll. Returns 0 if it is connected already,
 * -EINPROGRESS, an error of socket(2) or connect(2), or -ENOMEM. Does not park. */
int sn_happy_eyeballs_begin_one(struct sn_fd **out, const struct sn_resolved_address *to,
				bool to_write);

#endif
