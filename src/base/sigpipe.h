/* SPDX-License-Identifier: MIT */
/*
 * SIGPIPE.
 *
 * splice() and sendfile() to a socket or pipe, and write() to a pipe, have no MSG_NOSIGNAL. So
 * the thread blocks SIGPIPE around the call, and then takes the signal that the call has raised:
 * the kernel directs it at the thread, so it is pending here and nowhere else.
 *
 * That is done not only when the call has returned -EPIPE. These calls loop: a first part may be
 * sent, and a later one meets the reset, the end of the last reader, or the close of a peer that it
 * slept for. Then the signal is raised, and the call returns the bytes of the first part. Only a
 * call that has moved everything it was asked for has met no error in any part. That is the usual
 * outcome for the contents of a pipe of sennit's, and it needs no further system call.
 *
 * Signals of the program:
 *   - One that it has blocked itself may be pending already. It stays, and the one that the call
 *     raises merges with it. One that was sent to the whole process (kill()) does not merge: then
 *     the call's stays beside it, in a thread that has the signal blocked.
 *   - One may arrive during the call, sent to this thread, or to a process whose other threads
 *     have it blocked. The signal that is taken says where it is from: the kernel's looks as if the
 *     process had sent it. One from elsewhere is put back where it was. If the call raised one as
 *     well, the two have merged, as they would have without us.
 *
 * Rejected: runtime threads that have SIGPIPE blocked permanently. Programs that the tasks start
 * would inherit that (`yes | head` would not end), and tasks with a handler for it would not see
 * it. Ignoring it for the whole process is the program's decision, which saves all of this.
 *
 * Any thread, and signal handlers.
 */
#ifndef SENNIT_BASE_SIGPIPE_H
#define SENNIT_BASE_SIGPIPE_H

#include <stddef.h>
#include <sys/types.h>

enum sn_sigpipe {
	SN_SIGPIPE_FREE,    /* not blocked before */
	SN_SIGPIPE_BLOCKED, /* by the program */
	SN_SIGPIPE_PENDING, /* and there is one */
};

/* Around a call that may raise it: which was asked for size bytes, and has returned n. */
enum sn_sigpipe sn_sigpipe_hold(void);
void sn_sigpipe_release(enum sn_sigpipe former, ssize_t n, size_t size);

#endif
