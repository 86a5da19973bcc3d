/* SPDX-License-Identifier: MIT */
/*
 * Quiet streams: tasks that begin when there is something to read.
 *
 * A task that waits for its peer's next request keeps a stack during the wait, most of a page of
 * which it has touched. A server with many quiet connections does without: the task that has
 * answered ends, and leaves the connection to a task that has not begun. Such a task takes no
 * stack; together with its stream it takes less than 650 bytes, beside what the program keeps
 * itself. (32-bit processes, and kernels before Linux 6.13, have few stacks, and there a spawn has
 * to find one: there the new task has its stack, and one page of it in memory, from the beginning.)
 *
 *	static int serve(void *arg)
 *	{
 *		sn_stream *peer = arg;
 *
 *		if (answer_one_request(peer) && sn_go_when_readable(peer, serve, peer) == 0)
 *			return 0;
 *		sn_stream_close(peer);
 *		return 0;
 *	}
 *
 * The task begins when there are bytes, the end of the stream or an error to read; when the
 * stream's read deadline has passed; when the stream is closed, aborted or cancelled; or when its
 * scope is cancelled. It does not learn which of these has happened: its first read finds out. That
 * read may now and then find nothing, and then waits as any read does. Bytes in a buffer of the
 * program's own, also in one of buffered.h, do not begin a task, so these have to be used first.
 *
 * Until the task begins the stream counts as being read from: another read returns -EBUSY. Closing
 * it begins the task, which gets -EBADF from its first call.
 *
 * On a stream with TLS (tls.h) it is the decrypted bytes that count. Such a stream keeps OpenSSL's
 * memory while it is quiet.
 *
 * Threads outside the runtime: none; -ENOTSUP. Signal handlers: none.
 */
#ifndef SENNIT_WHEN_READABLE_H
#define SENNIT_WHEN_READABLE_H

#include <sennit/base.h>
#include <sennit/scope.h>
#include <sennit/stream.h>
#include <sennit/task.h>

SN_BEGIN

/*
 * Starts a detached task that calls fn(arg) as soon as there is something to read from the stream,
 * or an error or a deadline ends the wait for it. Returns 0; and with nothing started, -EBUSY when
 * a task reads from the stream; -EBADF, -ECANCELED, -ETIMEDOUT as a read; -EPROTOTYPE for sockets
 * that carry messages; -EINVAL for NULL; -ENOMEM; the reason when the caller's scope is cancelled;
 * -ENOTSUP outside a task. May park for a stream with TLS.
 */
SN_API int sn_go_when_readable(sn_stream *stream, sn_fn *fn, void *arg);

/*
 * As sn_go_when_readable(), with the attributes of sn_spawn() (task.h), NULL for the defaults, and
 * as a task of a scope (scope.h), unless scope is NULL: closing the scope waits for the task even
 * when it has not begun, and cancelling the scope begins it. Errors also as sn_scope_spawn().
 */
SN_API int sn_spawn_when_readable(sn_stream *stream, sn_scope *scope, sn_fn *fn, void *arg,
				  const struct sn_task_attr *attr);

SN_END

#endif
