/* SPDX-License-Identifier: MIT */
/*
 * Sending datagrams: one, or a number in order.
 *
 * Errors of other datagrams. With SN_UDP_ERRORS the next call on the socket, whatever it is,
 * returns an error that the network has reported. A call that sends to one of many peers must not
 * fail because of another. Therefore it notes the error for a receiver and tries again; this sends
 * the datagram, because the kernel reports each error once. An error that remains is the datagram's
 * own.
 *
 * If sendmmsg() meets an error after its first message, it returns the number of messages before
 * that, and forgets the error. Most such errors come again when the next call begins with that
 * message, but an error of an earlier datagram does not. Therefore with SN_UDP_ERRORS each message
 * has a system call of its own.
 */
#include <errno.h>

#include "names/address_value.h"
#include "net/sys_udp.h"
#include "net/udp.h"
#include "net/udp_batch.h"
#include "sched/switch.h"
#include "sched/thread.h"

/* How often a datagram is tried. Errors may come in faster than they are returned, but each try
 * takes one. */
#define TRIES 4

/* Whether the error may be that of another datagram. Errors of a full buffer or queue are the
 * sender's own, because no router reports them. */
static bool may_be_of_another(const struct sn_udp_state *udp, ssize_t n)
{
	return sn_unlikely(n < 0) && n != -EAGAIN && n != -ENOBUFS && n != -ENOMEM &&
	       (udp->flags & SN_UDP_ERRORS) &&
	       !atomic_load_explicit(&udp->one_peer, memory_order_relaxed);
}

/* Called when a try has returned n, after one with an error that may be of another datagram.
 * Returns whether another try may help: each try with a datagram that is too large leaves a report
 * of its own. */
static bool settle(struct sn_fd *d, ssize_t error, ssize_t n)
{
	if (n != error)
		sn_udp_note_error(d, (int)error);
	return n != -EMSGSIZE;
}

/* ---- one datagram ---- */

static ssize_t try_one(struct sn_fd *d, const void *buf, size_t size, const union sn_sockaddr *peer,
		       socklen_t length)
{
	ssize_t n = sn_sys_send_to(d->fd, buf, size, &peer->any, length), error;

	for (int i = 1; i < TRIES && may_be_of_another(sn_udp_state(d), n); i++) {
		error = n;
		n = sn_sys_send_to(d->fd, buf, size, &peer->any, length);
		if (!settle(d, error, n))
			break;
	}
	return n;
}

static ssize_t send_one(const void *handle, const void *buf, size_t size,
			const struct sn_address *peer)
{
	union sn_sockaddr to;
	socklen_t length = 0;
	struct sn_side_queue_place place;
	struct sn_fd *d;
	ssize_t n = sn_udp_begin(&d, handle, SN_SIDE_WRITE);

	if (n < 0)
		return n;
	if (peer)
		length = sn_address_to(&to, peer, sn_udp_state(d)->family);
	sn_side_queue_begin(&place, d, SN_SIDE_WRITE, &sn_udp_state(d)->queues[SN_SIDE_WRITE]);
	do {
		n = try_one(d, buf, size, &to, length);
	} while (n == -EAGAIN && (n = sn_side_queue_wait(&place)) == 0);
	sn_side_queue_end(&place);
	sn_fd_unuse(d);
	if (n >= 0)
		sn_fair_chance(sn_thread_self());
	return n;
}

ssize_t sn_udp_send(sn_udp *udp, const void *buf, size_t size, const struct sn_address *peer)
{
	ssize_t n;

	if (!buf && size)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	n = send_one(udp, buf, size, peer);
	sn_runtime_leave();
	return n;
}

/* ---- messages ---- */

static struct msghdr *prepare(struct sn_udp_batch *batch, size_t i,
			      const struct sn_udp_message *message, int family)
{
	return sn_udp_batch_put(batch, i, message,
				sn_address_to(&batch->peers[i], &message->peer, family));
}

/* For messages without control data. */
static sn_noinline int try_plain(struct sn_fd *d, const struct sn_udp_message *messages, size_t n)
{
	struct sn_udp_batch batch;

	for (size_t i = 0; i < n; i++)
		prepare(&batch, i, &messages[i], sn_udp_state(d)->family);
	return sn_sys_send_many(d->fd, batch.headers, n);
}

/* For messages of which some have control data. Sends the messages before the first one that is
 * invalid; returns -EINVAL if that is the first of all. */
static sn_noinline int try_wanting(struct sn_fd *d, const struct sn_udp_message *messages, size_t n)
{
	struct sn_udp_control controls[SN_UDP_BATCH];
	struct sn_udp_batch batch;
	size_t i;
	int err = 0;

	for (i = 0; i < n; i++) {
		err = sn_udp_put_control(prepare(&batch, i, &messages[i], sn_udp_state(d)->family),
					 &controls[i], &messages[i], sn_udp_state(d)->family);
		if (err < 0)
			break;
	}
	return i > 0 ? sn_sys_send_many(d->fd, batch.headers, i) : err;
}

static int try_batch(struct sn_fd *d, const struct sn_udp_message *messages, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (sn_udp_wants_control(&messages[i]))
			return try_wanting(d, messages, n);
	return try_plain(d, messages, n);
}

static int try_messages(struct sn_fd *d, const struct sn_udp_message *messages, size_t n)
{
	int count, error;

	if (n > SN_UDP_BATCH)
		n = SN_UDP_BATCH;
	if (sn_udp_state(d)->flags & SN_UDP_ERRORS)
		n = 1;
	count = try_batch(d, messages, n);
	for (int i = 1; i < TRIES && may_be_of_another(sn_udp_state(d), count); i++) {
		error = count;
		count = try_batch(d, messages, n);
		if (!settle(d, error, count))
			break;
	}
	return count;
}

/* Returns the number of messages sent, or the error of the first. */
static int send_messages(const void *handle, const struct sn_udp_message *messages, size_t n)
{
	struct sn_side_queue_place place;
	struct sn_fd *d;
	size_t done = 0;
	int count = sn_udp_begin(&d, handle, SN_SIDE_WRITE);

	if (count < 0)
		return count;
	sn_side_queue_begin(&place, d, SN_SIDE_WRITE, &sn_udp_state(d)->queues[SN_SIDE_WRITE]);
	while (done < n && count >= 0) {
		do {
			count = try_messages(d, messages + done, n - done);
		} while (count == -EAGAIN && (count = sn_side_queue_wait(&place)) == 0);
		if (count > 0)
			done += (size_t)count;
	}
	sn_side_queue_end(&place);
	sn_fd_unuse(d);
	if (done > 0)
		sn_fair_chance(sn_thread_self());
	return done > 0 ? (int)done : count;
}

int sn_udp_send_messages(sn_udp *udp, const struct sn_udp_message *messages, size_t n)
{
	int count;

	if (!messages && n)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	/* The result is an int. */
	count = send_messages(udp, messages, n < INT32_MAX ? n : INT32_MAX);
	sn_runtime_leave();
	return count;
}
