/* SPDX-License-Identifier: MIT */
/*
 * Quiet streams: sn_spawn_when_readable().
 *
 * Contract. The caller of sn_spawn_when_readable() makes the task as by any spawn, but does not
 * queue it. Instead it parks the task on the reading side of the stream (sn_fd_park_new()). An
 * edge, the deadline, a close or a cancellation makes the task runnable as if it had parked there
 * itself. It has no stack until it first runs (sched/task.h), so a quiet stream costs only two
 * structures: struct sn_fd and struct sn_task.
 *
 * The wait is a read operation, which the maker begins and the task ends (on_begin()) before its
 * function is called. During that time the descriptor is not freed, and no other task can be on its
 * side.
 *
 * What has arrived already makes no further edge. Therefore the maker looks, unless the previous
 * read has left the socket empty, after which anything new makes an edge (stream.c). The maker
 * takes an edge that is there before it looks; it finds an edge that comes later when it announces
 * the task on the side. models/side.pml checks this.
 *
 * Rejected:
 *   - A stack that is copied out while its task waits: C code keeps addresses of its locals.
 *   - A function and its argument in struct sn_fd, and a task only when the edge comes: it saves
 *     384 bytes more, but the poller would have to make tasks, and to keep the streams whose tasks
 *     cannot be made; and no report, scope or collector would know of them.
 */
#include <errno.h>
#include <poll.h>

#include <sennit/when_readable.h>

#include "io/sys.h"
#include "sched/record.h"
#include "sched/switch.h"
#include "sched/task.h"
#include "sched/thread.h"
#include "stream/layer.h"
#include "stream/stream.h"
#include "sync/scope.h"
#include "task/local.h"
#include "task/spawn.h"

/* Whether a read would return immediately. Within a read operation. May park. */
static bool is_readable(struct sn_fd *d)
{
	bool news = sn_fd_take_edge(d, SN_SIDE_READ);

	if (!d->registered)
		return true;
	if (sn_conn_kind(d) == SN_KIND_LAYERED && sn_layer_quiet(d))
		return true;
	return (news || !d->notes[SN_NOTE_DRAINED]) &&
	       sn_sys_poll(d->fd, POLLIN | POLLPRI | POLLRDHUP);
}

/* The first step of the task. What the edge reported has arrived by now. The deadline was ahead
 * when the wait began, so the next read still makes an attempt, like a read that has itself
 * waited. */
static void on_begin(struct sn_task *task)
{
	struct sn_fd *d = sn_fd_parked_on(task);

	d->notes[SN_NOTE_OWES_LOOK] = 2;
	sn_fd_forget(d, SN_SIDE_READ);
	SN_RACE_WINDOW();
	sn_fd_end(d, SN_SIDE_READ);
}

/* Makes the task, within a read operation. If the task is parked, the operation becomes the task's.
 * Otherwise this function ends the operation: if there is no task, or the task begins
 * immediately. */
static int start(struct sn_fd *d, sn_scope *scope, sn_fn *fn, void *arg,
		 const struct sn_task_attr *attr, const void *at, struct sn_local_node *heritage)
{
	bool ready = is_readable(d);
	struct sn_thread *self = sn_thread_self();
	struct sn_task *task;
	int err;

	if (!ready)
		sn_conn_acknowledge(d);
	task = scope ? sn_scope_task_new(self, scope, fn, arg, attr, at, &err)
		     : sn_task_new(self, fn, arg, attr, at, &err);
	if (!task || ready)
		sn_fd_end(d, SN_SIDE_READ);
	if (!task)
		return err;
	task->locals = heritage;
	if (ready) {
		sn_task_launch(self, task);
	} else {
		task->on_begin = on_begin;
		sn_task_count(self);
		sn_record_spawn(self, task, true);
		sn_fd_park_new(self, d, task);
	}
	return 0;
}

/* Called inside the runtime, and leaves it. */
static int spawn(struct sn_thread *self, sn_stream *stream, sn_scope *scope, sn_fn *fn, void *arg,
		 const struct sn_task_attr *attr, const void *at)
{
	struct sn_local_node *heritage = NULL;
	struct sn_fd *d;
	int err;

	if (sn_unlikely(self->task->locals)) {
		err = sn_locals_inherit(&self, "sn_spawn_when_readable", &heritage);
		if (err < 0)
			return err;
	}
	err = sn_conn_begin(&d, stream, SN_SIDE_READ);
	if (err == 0 && sn_conn_has_messages(d)) {
		sn_fd_end(d, SN_SIDE_READ);
		err = -EPROTOTYPE;
	}
	if (err == 0)
		err = start(d, scope, fn, arg, attr, at, heritage);
	sn_runtime_leave();
	if (err < 0 && heritage)
		sn_locals_drop(heritage);
	return err;
}

int sn_spawn_when_readable(sn_stream *stream, sn_scope *scope, sn_fn *fn, void *arg,
			   const struct sn_task_attr *attr)
{
	struct sn_thread *self = sn_runtime_enter_for("sn_spawn_when_readable");

	if (!self)
		return -ENOTSUP;
	return spawn(self, stream, scope, fn, arg, attr, __builtin_return_address(0));
}

int sn_go_when_readable(sn_stream *stream, sn_fn *fn, void *arg)
{
	struct sn_thread *self = sn_runtime_enter_for("sn_go_when_readable");

	if (!self)
		return -ENOTSUP;
	return spawn(self, stream, NULL, fn, arg, NULL, __builtin_return_address(0));
}
