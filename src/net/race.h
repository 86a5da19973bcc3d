/* SPDX-License-Identifier: MIT */
/*
 * Connecting to the first of several addresses that answers: "happy eyeballs", RFC 8305.
 *
 * The attempts begin one after the other, 250 ms apart, in the order of the list, but alternating
 * between the family of its first address and the others. If an attempt fails, the next one begins
 * at once. The first that succeeds wins, and the others are closed. So an address that drops
 * packets costs 250 ms, a family that does not work costs as much once, and an address that refuses
 * costs one round trip.
 *
 * With a deadline that is too near for that, the attempts begin in shorter intervals, but not less
 * than 100 ms apart.
 *
 * Descriptors. At most SN_RACE_MOST attempts are under way. One more takes the place of the oldest,
 * which has had two seconds. If there is no descriptor for one more, that is tried again when
 * another attempt has ended, or after 250 ms.
 */
#ifndef SENNIT_NET_RACE_H
#define SENNIT_NET_RACE_H

#include <stdbool.h>
#include <stdint.h>

#include <sennit/resolve.h>

#define SN_RACE_MOST 8
#define SN_RACE_INTERVAL_NS 250000000
#define SN_RACE_LEAST_INTERVAL_NS 100000000

struct sn_fd;

/*
 * 0 with a connection that is still to be registered with epoll. Errors: -ETIMEDOUT;
 * the reason for which the task's scope was cancelled; -EMFILE, -ENFILE, -ENOMEM, -ENOBUFS when not
 * even one attempt can begin; -ENOMEM or -ENOSPC when it is not possible to wait. When all attempts
 * have failed: what a peer has answered, such as -ECONNREFUSED; otherwise an error on the way to
 * it, such as -EHOSTUNREACH or -ETIMEDOUT; otherwise that there is no route, such as -ENETUNREACH;
 * of several such errors, the one of the address that failed first. to_write: see
 * sn_tcp_connect_to_write(). Within the runtime. Parks.
 */
int sn_race(struct sn_fd **out, const sn_resolved *to, int64_t deadline, bool to_write);

/* One attempt, which is not registered with epoll: 0 when it is connected already, or -EINPROGRESS.
 * Errors: as from socket(2) and connect(2), and -ENOMEM. Does not park. */
int sn_race_begin_one(struct sn_fd **out, const struct sn_resolved_address *to, bool to_write);

#endif
