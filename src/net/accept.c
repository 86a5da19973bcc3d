/* SPDX-License-Identifier: MIT */
#include "net/accept.h"

#include <errno.h>

#include <sennit/clock.h>

#include "base/counters.h"
#include "io/shortage.h"
#include "sched/switch.h"
#include "sched/thread.h"
#include "stream/stream.h"

/*
 * How long accepting pauses when descriptors or memory have run out. The first pause is short,
 * because a session may end at any moment. They double up to the last, with which a pausing task
 * makes only a few system calls a second.
 */
#define FIRST_PAUSE_NS 5000000
#define LAST_PAUSE_NS 320000000

static bool out_of_resources(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOBUFS || err == -ENOMEM;
}

/* Accepts a connection, and waits for one as long as it takes. */
static int accept_one(struct sn_fd *d, struct sn_fd **out, sn_accept_take *take)
{
	int64_t pause = FIRST_PAUSE_NS;
	int n = 0;

	while (n == 0) {
		n = take(d, out);
		if (n == 0)
			return 0;
		if (n == -EAGAIN) {
			n = sn_fd_await(d, SN_SIDE_READ);
		} else if (out_of_resources(n)) {
			atomic_fetch_add_explicit(&sn_counters.accept_pauses, 1,
						  memory_order_relaxed);
			sn_shortage_met();
			n = sn_fd_pause(d, SN_SIDE_READ, sn_now() + pause);
			if (pause < LAST_PAUSE_NS)
				pause *= 2;
		}
	}
	return n;
}

static int accept_in_task(struct sn_fd **out, const void *handle, sn_accept_take *take)
{
	struct sn_fd *listener;
	int n = sn_conn_begin(&listener, handle, SN_SIDE_READ);

	if (n < 0)
		return n;
	n = accept_one(listener, out, take);
	sn_fd_end(listener, SN_SIDE_READ);
	if (n == 0)
		sn_fair_chance(sn_thread_self());
	return n;
}

int sn_accept(void **handle, const void *listener, sn_accept_take *take)
{
	struct sn_fd *d;
	int err;

	if (!sn_runtime_enter())
		return -ENOTSUP;
	err = accept_in_task(&d, listener, take);
	if (err == 0)
		*handle = sn_fd_handle(d);
	sn_runtime_leave();
	return err;
}
