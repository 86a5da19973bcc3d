/* SPDX-License-Identifier: MIT */
/*
 * Calls that would raise SIGPIPE do not, and the program's own SIGPIPEs are kept.
 *
 * splice() and sendfile() to a socket or pipe, and write() to a pipe, have no MSG_NOSIGNAL. The
 * thread therefore blocks SIGPIPE around the call, and then takes the signal that the call has
 * raised. The kernel directs that signal at the thread, so it is pending there and nowhere else.
 *
 * It does so not only when the call has returned -EPIPE. These calls loop: they may send a first
 * part, and find at a later part that the connection was reset, that the last reader is gone, or
 * that the peer has closed while the call slept. Then the kernel raises the signal, and the call
 * returns the bytes of the first part. Only a call that has moved everything it was asked for has
 * met no error in any part. That is the usual outcome when sennit empties one of its pipes, and it
 * needs no further system call.
 *
 * Signals of the program:
 *   - A SIGPIPE may be pending already, if the program has blocked it. It stays, and the signal
 *     that the call raises merges with it. If it was sent to the whole process (kill()), the two do
 *     not merge: then the call's signal stays pending beside it, in a thread that has it blocked.
 *   - A SIGPIPE may arrive during the call, sent to this thread, or to a process whose other
 *     threads have it blocked. The signal that the thread takes says who sent it: the kernel's own
 *     looks as if the process had sent it. A signal from another sender is put back where it was.
 *     If the call raised one as well, the two have merged, as they would have without this.
 *
 * Rejected: runtime threads that have SIGPIPE blocked permanently. Programs that the tasks start
 * would inherit that (`yes | head` would not end), and tasks with a handler for it would not see
 * it. Ignoring it for the whole process would save all of this, but that is the program's decision.
 *
 * Any thread may call these functions, also in a signal handler. They keep no shared state.
 */
#ifndef SENNIT_BASE_SIGPIPE_H
#define SENNIT_BASE_SIGPIPE_H

#include <stddef.h>
#include <sys/types.h>

enum sn_sigpipe {
	SN_SIGPIPE_FREE,    /* was not blocked before */
	SN_SIGPIPE_BLOCKED, /* was blocked by the program */
	SN_SIGPIPE_PENDING, /* was blocked by the program, and one was pending */
};

/* Called before and after a call that may raise SIGPIPE. That call was asked to move size bytes,
 * and has returned n. */
enum sn_sigpipe sn_sigpipe_hold(void);
void sn_sigpipe_release(enum sn_sigpipe former, ssize_t n, size_t size);

#endif
