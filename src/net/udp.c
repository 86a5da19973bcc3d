/* SPDX-License-Identifier: MIT */
/*
 * UDP sockets: opening, addresses, closing. Public functions enter the runtime, call the static
 * function that does the work and leave. The static functions may change threads, so they keep no
 * self.
 */
#include "net/udp.h"

#include <errno.h>
#include <stdlib.h>

#include <sennit/stream.h>

#include "arch/sized.h"
#include "io/sys.h"
#include "names/address.h"
#include "names/address_value.h"
#include "names/resolve.h"
#include "net/sys_udp.h"
#include "sched/thread.h"
#include "stream/stream.h"
#include "task/cancel.h"

/* ---- the descriptor ---- */

static void closed(struct sn_fd *d, bool orderly)
{
	(void)orderly;
	free(sn_udp_state(d));
}

/* Keeps the state of a socket that an abandoned task may still be using. */
static void abandoned(struct sn_fd *d, bool used)
{
	if (!used)
		free(atomic_exchange(&d->own, NULL));
}

static const struct sn_fd_ops udp_ops = {.closed = closed, .abandoned = abandoned};

/* On failure the caller keeps fd. */
static int open_descriptor(struct sn_fd **out, int fd, int family, uint32_t flags, bool one_peer)
{
	struct sn_udp_state *state;
	struct sn_fd *d;
	int err = sn_fd_open(&d, &udp_ops, fd, false);

	if (err < 0)
		return err;
	state = calloc(1, sizeof *state);
	if (state) {
		sn_side_queue_reset(&state->queues[SN_SIDE_READ]);
		sn_side_queue_reset(&state->queues[SN_SIDE_WRITE]);
		state->family = family;
		state->flags = flags;
		atomic_store_explicit(&state->one_peer, one_peer, memory_order_relaxed);
		d->wants_room = false;
	}
	atomic_store_explicit(&d->own, state, memory_order_relaxed);
	err = state ? sn_fd_register(d) : -ENOMEM;
	if (err < 0) {
		sn_fd_give_back(d);
		return err;
	}
	*out = d;
	return 0;
}

/* Takes over fd, and closes it on failure. */
static int own(struct sn_fd **out, int fd, int family, uint32_t flags, bool one_peer)
{
	int err = open_descriptor(out, fd, family, flags, one_peer);

	if (err < 0)
		sn_sys_close(fd);
	return err;
}

static int check_options(const struct sn_udp_options *options)
{
	if (options->flags & ~SN_UDP_KNOWN_FLAGS)
		return -EINVAL;
	return options->receive_buffer < 0 || options->send_buffer < 0 ? -EINVAL : 0;
}

/* Returns a socket that has its options but is not bound, or an error. */
static int new_socket(int family, const struct sn_udp_options *options)
{
	int fd = sn_sys_udp_socket(family), err;

	if (fd < 0)
		return fd;
	err = sn_udp_prepare(fd, family, options);
	if (err == 0)
		return fd;
	sn_sys_close(fd);
	return err;
}

/* ---- opening ---- */

/* Returns a bound socket, or an error. */
static int bind_one(const struct sn_address *address, const struct sn_udp_options *options)
{
	int fd = new_socket(address->family, options), err;
	union sn_sockaddr at;

	if (fd < 0)
		return fd;
	err = sn_sys_bind(fd, &at.any, sn_address_to(&at, address, AF_UNSPEC));
	if (err == 0)
		return fd;
	sn_sys_close(fd);
	return err;
}

/* Returns a socket for one peer, or an error. */
static int connect_one(const struct sn_address *peer, const struct sn_udp_options *options)
{
	int fd = new_socket(peer->family, options), err;
	union sn_sockaddr at;

	if (fd < 0)
		return fd;
	err = sn_sys_set_peer(fd, &at.any, sn_address_to(&at, peer, AF_UNSPEC));
	if (err == 0)
		return fd;
	sn_sys_close(fd);
	return err;
}

typedef int socket_for(const struct sn_address *address, const struct sn_udp_options *options);

/* Makes a socket for the first address of the list with which that is possible. Returns its
 * family. */
static int first_of(const sn_resolved *list, socket_for *make, const struct sn_udp_options *options,
		    int *fd)
{
	struct sn_address address;
	int first_error = -EADDRNOTAVAIL;

	for (size_t i = 0; i < list->count; i++) {
		const struct sn_resolved_address *at = &list->addresses[i];

		*fd = sn_address_from_sockaddr(&address, (const struct sockaddr *)&at->address,
					       at->length);
		if (*fd == 0)
			*fd = make(&address, options);
		if (*fd >= 0)
			return address.family;
		/* If the kernel has no IPv6, the error of IPv4 is the interesting one. */
		if (first_error == -EADDRNOTAVAIL && *fd != -EAFNOSUPPORT)
			first_error = *fd;
	}
	return first_error;
}

/* Makes a socket for an address in text form. Returns its family, with the socket in *fd, or an
 * error. */
static int socket_by_text(const char *text, socket_for *make, bool passive, int64_t deadline,
			  const struct sn_udp_options *options, int *fd)
{
	struct sn_address address;
	sn_resolved *list;
	int n;

	if (sn_address_parse(&address, text) == 0) {
		if (!passive && text[0] == ':')
			return -EINVAL;
		*fd = make(&address, options);
		/* ":port" is an IPv6 socket that also takes IPv4, or an IPv4 socket if there is no
		 * IPv6. */
		if (*fd == -EAFNOSUPPORT && text[0] == ':' && !(options->flags & SN_UDP_V6_ONLY)) {
			address.family = AF_INET;
			*fd = make(&address, options);
		}
		return *fd < 0 ? *fd : address.family;
	}
	n = sn_resolve_text(&list, text, SN_RESOLVE_UDP | (passive ? SN_RESOLVE_PASSIVE : 0),
			    deadline);
	if (n < 0)
		return n;
	n = first_of(list, make, options, fd);
	sn_resolved_free(list);
	return n;
}

static int by_text(struct sn_fd **out, const char *text, bool passive, int64_t deadline,
		   const struct sn_udp_options *options)
{
	int n = sn_cancel_reason(sn_thread_self()->task), fd = -1;

	if (n == 0)
		n = check_options(options);
	if (n == 0)
		n = socket_by_text(text, passive ? bind_one : connect_one, passive, deadline,
				   options, &fd);
	return n < 0 ? n : own(out, fd, n, options->flags, !passive);
}

int sn_udp_open(sn_udp **udp, const char *address, const struct sn_udp_options *options)
{
	struct sn_udp_options own;
	struct sn_fd *d;
	int err = SN_SIZED_TAKE(&own, options);

	if (err < 0)
		return err;
	if (!udp || !address)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	err = by_text(&d, address, true, SN_NO_DEADLINE, &own);
	if (err == 0)
		*udp = sn_fd_handle(d);
	sn_runtime_leave();
	return err;
}

int sn_udp_connect(sn_udp **udp, const char *address, const struct sn_udp_options *options,
		   int64_t deadline)
{
	struct sn_udp_options own;
	struct sn_fd *d;
	int err = SN_SIZED_TAKE(&own, options);

	if (err < 0)
		return err;
	if (!udp || !address)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	err = by_text(&d, address, false, deadline, &own);
	if (err == 0)
		*udp = sn_fd_handle(d);
	sn_runtime_leave();
	return err;
}

static int at_value(struct sn_fd **out, const struct sn_address *address,
		    const struct sn_udp_options *options)
{
	int err = sn_cancel_reason(sn_thread_self()->task), fd;

	if (err == 0)
		err = check_options(options);
	if (err < 0)
		return err;
	fd = bind_one(address, options);
	return fd < 0 ? fd : own(out, fd, address->family, options->flags, false);
}

int sn_udp_open_at(sn_udp **udp, const struct sn_address *address,
		   const struct sn_udp_options *options)
{
	struct sn_udp_options own;
	struct sn_fd *d;
	int err = SN_SIZED_TAKE(&own, options);

	if (err < 0)
		return err;
	if (!udp || !address || !sn_address_is_some(address))
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	err = at_value(&d, address, &own);
	if (err == 0)
		*udp = sn_fd_handle(d);
	sn_runtime_leave();
	return err;
}

static int take_over(struct sn_fd **out, int fd, const struct sn_udp_options *options)
{
	struct sockaddr_storage peer;
	socklen_t length;
	int family = 0, err = sn_sys_is_udp(fd, &family);

	if (err == 0)
		err = check_options(options);
	if (err == 0)
		err = sn_udp_prepare(fd, family, options);
	if (err == 0)
		err = open_descriptor(out, fd, family, options->flags,
				      sn_sys_name(fd, 1, &peer, &length) == 0);
	if (err < 0)
		return err;
	/* Neither call can fail on a socket. No task uses it before this function returns. */
	sn_sys_set_close_on_exec(fd);
	sn_sys_set_nonblocking(fd);
	return 0;
}

int sn_udp_adopt(sn_udp **udp, int fd, const struct sn_udp_options *options)
{
	struct sn_udp_options own;
	struct sn_fd *d;
	int err = SN_SIZED_TAKE(&own, options);

	if (err < 0)
		return err;
	if (!udp)
		return -EINVAL;
	if (!sn_runtime_enter())
		return -ENOTSUP;
	err = take_over(&d, fd, &own);
	if (err == 0)
		*udp = sn_fd_handle(d);
	sn_runtime_leave();
	return err;
}

/* ---- operations ---- */

int sn_udp_begin(struct sn_fd **d, const void *handle, enum sn_side_index side)
{
	int err = sn_fd_find(d, handle);

	if (err == 0)
		err = sn_fd_begin_shared(*d, handle);
	if (err < 0)
		return err;
	err = sn_unlikely(!sn_fd_fits(*d, handle)) ? -EBADF : sn_fd_check_deadline(*d, side);
	if (err < 0)
		sn_fd_unuse(*d);
	return err;
}

/* ---- calls that do not park ---- */

int sn_udp_set_peer(sn_udp *udp, const struct sn_address *peer)
{
	union sn_sockaddr at;
	socklen_t length = 0;
	struct sn_fd *d;
	int err = peer && !sn_address_is_some(peer) ? -EINVAL : sn_fd_use_handle(&d, udp);

	if (err < 0)
		return err;
	if (peer)
		length = sn_address_to(&at, peer, sn_udp_state(d)->family);
	err = sn_sys_set_peer(d->fd, &at.any, length);
	if (err == 0) /* relaxed: a hint */
		atomic_store_explicit(&sn_udp_state(d)->one_peer, peer != NULL,
				      memory_order_relaxed);
	sn_fd_unuse(d);
	return err;
}

static int name_of(sn_udp *udp, int peer, struct sn_address *address)
{
	struct sockaddr_storage name;
	socklen_t length;
	struct sn_fd *d;
	int err = address ? sn_fd_use_handle(&d, udp) : -EINVAL;

	if (err < 0)
		return err;
	err = sn_sys_name(d->fd, peer, &name, &length);
	sn_fd_unuse(d);
	return err < 0 ? err : sn_address_from_sockaddr(address, (struct sockaddr *)&name, length);
}

int sn_udp_local(sn_udp *udp, struct sn_address *address)
{
	return name_of(udp, 0, address);
}

int sn_udp_peer(sn_udp *udp, struct sn_address *address)
{
	return name_of(udp, 1, address);
}

int sn_udp_local_address(sn_udp *udp, char *buf, size_t size)
{
	struct sn_address address;
	int err = name_of(udp, 0, &address);

	return err < 0 ? err : sn_address_text(&address, buf, size);
}

int sn_udp_peer_address(sn_udp *udp, char *buf, size_t size)
{
	struct sn_address address;
	int err = name_of(udp, 1, &address);

	return err < 0 ? err : sn_address_text(&address, buf, size);
}

int sn_udp_set_read_deadline(sn_udp *udp, int64_t deadline)
{
	return sn_conn_set_deadline(udp, SN_SIDE_READ, deadline);
}

int sn_udp_set_write_deadline(sn_udp *udp, int64_t deadline)
{
	return sn_conn_set_deadline(udp, SN_SIDE_WRITE, deadline);
}

int sn_udp_cancel(sn_udp *udp)
{
	return sn_stream_cancel((sn_stream *)udp);
}

int sn_udp_close(sn_udp *udp)
{
	return sn_conn_close(udp, 0);
}

int sn_udp_fd(sn_udp *udp)
{
	return sn_conn_descriptor(udp);
}
