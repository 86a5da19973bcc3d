/* SPDX-License-Identifier: MIT */
/*
 * Receiving datagrams: one, or those that have arrived, up to a number.
 *
 * The functions that make system calls have the headers of a batch in their frames, and do not
 * park. The functions that may change threads keep no pointer to anything of a thread.
 */
#include <errno.h>

#include "names/address_value.h"
#include "net/sys_udp.h"
#include "net/udp.h"
#include "net/udp_batch.h"
#include "sched/switch.h"
#include "sched/thread.h"

void sn_udp_note_error(struct sn_fd *d, int error)
{
	atomic_store(&sn_udp_state(d)->error, error);
	sn_fd_wake(sn_thread_self(), d, SN_SIDE_READ);
}

/* Takes an error that another call has taken from the socket, for the caller, a receiver, to
 * return. */
static int noted_error(struct sn_udp_state *udp)
{
	if (sn_likely(!atomic_load_explicit(&udp->error, memory_order_relaxed)))
		return 0;
	return atomic_exchange(&udp->error, 0);
}

/* ---- one datagram ---- */

static ssize_t try_one(struct sn_fd *d, void *buf, size_t size, struct sn_address *peer)
{
	ssize_t n = noted_error(sn_udp_state(d));
	union sn_sockaddr from;

	if (n == 0)
		n = sn_sys_recv_from(d->fd, buf, size, peer ? &from.any : NULL, sizeof from);
	if (n < 0)
		return n;
	if (peer)
		sn_address_from(peer, &from);
	return (size_t)n > size ? -EMSGSIZE : n;
}

static ssize_t receive_one(const void *handle, void *buf, size_t size, struct sn_address *peer)
{
	struct sn_side_queue_place place;
	struct sn_fd *d;
	ssize_t n = sn_udp_begin(&d, handle, SN_SIDE_READ);

	if (n < 0)
		return n;
	sn_side_queue_begin(&place, d, SN_SIDE_READ, &sn_udp_state(d)->queues[SN_SIDE_READ]);
	do {
		n = try_one(d, buf, size, peer);
	} while (n == -EAGAIN && (n = sn_side_queue_wait(&place)) == 0);
	sn_side_queue_end(&place);
	sn_fd_unuse(d);
	if (n >= 0)
		sn_fair_chance(sn_thread_self());
	return n;
}

ssize_t sn_udp_recv(sn_udp *udp, void *buf, size_t size, struct sn_address *peer)
{
	ssize_t n;

	if (!buf && size)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	n = receive_one(udp, buf, size, peer);
	sn_runtime_leave();
	return n;
}

/* ---- messages ---- */

static void finish(struct mmsghdr *header, struct sn_udp_message *message)
{
	message->length = header->msg_len;
	message->local = (struct sn_address){0};
	message->interface = 0;
	message->segment = 0;
	message->tos = 0;
	message->flags = message->length > message->size ? SN_UDP_TRUNCATED : 0;
	sn_address_from(&message->peer, header->msg_hdr.msg_name);
	if (header->msg_hdr.msg_control)
		sn_udp_get_control(&header->msg_hdr, message);
}

/* controls: one for each message, or NULL. */
static int try_batch(struct sn_fd *d, struct sn_udp_message *messages, size_t n,
		     struct sn_udp_control *controls)
{
	struct sn_udp_batch batch;
	int count;

	for (size_t i = 0; i < n; i++) {
		struct msghdr *header =
			sn_udp_batch_put(&batch, i, &messages[i], sizeof batch.peers[i]);

		header->msg_control = controls ? &controls[i] : NULL;
		header->msg_controllen = controls ? sizeof *controls : 0;
	}
	count = sn_sys_recv_many(d->fd, batch.headers, n);
	for (int i = 0; i < count; i++)
		finish(&batch.headers[i], &messages[i]);
	return count;
}

static sn_noinline int try_plain(struct sn_fd *d, struct sn_udp_message *messages, size_t n)
{
	return try_batch(d, messages, n, NULL);
}

static sn_noinline int try_telling(struct sn_fd *d, struct sn_udp_message *messages, size_t n)
{
	struct sn_udp_control controls[SN_UDP_BATCH];

	return try_batch(d, messages, n, controls);
}

/* Takes the messages that have arrived, up to n, with as many calls as necessary. If an error comes
 * after the first datagram of a call, the kernel keeps it for the next call. */
static int try_messages(struct sn_fd *d, struct sn_udp_message *messages, size_t n)
{
	size_t done = 0, part;
	int count = noted_error(sn_udp_state(d));

	if (count < 0)
		return count;
	do {
		part = n - done < SN_UDP_BATCH ? n - done : SN_UDP_BATCH;
		count = sn_udp_state(d)->flags & SN_UDP_TELLING
				? try_telling(d, messages + done, part)
				: try_plain(d, messages + done, part);
		if (count > 0)
			done += (size_t)count;
	} while (count == SN_UDP_BATCH && done < n);
	if (done && count < 0 && count != -EAGAIN)
		sn_udp_note_error(d, count);
	return done ? (int)done : count;
}

static int receive_messages(const void *handle, struct sn_udp_message *messages, size_t n)
{
	struct sn_side_queue_place place;
	struct sn_fd *d;
	int count = sn_udp_begin(&d, handle, SN_SIDE_READ);

	if (count < 0)
		return count;
	sn_side_queue_begin(&place, d, SN_SIDE_READ, &sn_udp_state(d)->queues[SN_SIDE_READ]);
	do {
		count = n ? try_messages(d, messages, n) : 0;
	} while (count == -EAGAIN && (count = sn_side_queue_wait(&place)) == 0);
	sn_side_queue_end(&place);
	sn_fd_unuse(d);
	if (count > 0)
		sn_fair_chance(sn_thread_self());
	return count;
}

int sn_udp_recv_messages(sn_udp *udp, struct sn_udp_message *messages, size_t n)
{
	int count;

	if (!messages && n)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	/* The result is an int. */
	count = receive_messages(udp, messages, n < INT32_MAX ? n : INT32_MAX);
	sn_runtime_leave();
	return count;
}
