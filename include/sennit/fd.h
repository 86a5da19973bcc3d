/* SPDX-License-Identifier: MIT */
/*
 * Waiting for any descriptor that can be polled, whoever owns it: a client library's socket, a
 * pidfd, an eventfd, a timerfd, an inotify or epoll descriptor. The task parks; the thread runs
 * others.
 *
 * This is how a task uses a library that does not call back but offers its descriptors: libpq's
 * asynchronous calls, c-ares, libcurl's multi interface. Ask the library for its descriptors and
 * the events that it waits for, wait here, and let it continue. What sennit has opened itself has
 * calls of its own that wait (stream.h, tcp.h), but its descriptors may be waited for here, too.
 *
 * Events are those of poll(2): POLLIN, POLLOUT, POLLPRI and POLLRDHUP are asked for; POLLERR and
 * POLLHUP are reported whether they are asked for or not. Readiness is a level: as long as a
 * descriptor is ready, every wait for it returns immediately. Files and devices that cannot be
 * polled are always ready, as in poll(2).
 *
 * Sharing. Any number of tasks may wait for one descriptor, for the same events or for different
 * ones, and each of them is woken by the events that it asked for. Nothing of the descriptor
 * changes: it need not be non-blocking, and nothing is read from it. A call that follows may still
 * block, if another thread was faster, unless the descriptor is non-blocking.
 *
 * Closing. A wait is for the descriptor that has the number at the time of the call. Before you
 * close a descriptor that tasks may wait for, call sn_fd_closing(), which ends their waits. It does
 * not end waits that begin later, so no task should begin one until the close is over. The waits
 * for a descriptor also end when sennit closes it (sn_tcp_close()) or takes it over
 * (sn_stream_adopt()). In each case sn_fd_wait() returns -EBADF, and sn_fd_wait_any() reports
 * POLLNVAL for this descriptor, as both do for one that is not open when they are called.
 *
 * Without sn_fd_closing(), a wait ends in the same way when the number is used again and a task
 * waits for it, and otherwise when the wait looks: after a second, and then each time that it has
 * lasted twice as long, but at least every 64 s. Until then it does no harm: it does not report
 * what happens to another descriptor with the same number. There are two exceptions. A descriptor
 * that was waited for, left its number without sn_fd_closing(), stayed open elsewhere and then got
 * the number again may be mistaken for the one that had it in between. And where the descriptor is
 * sennit's own, a wait can see only whether the number is open.
 *
 * Threads outside the runtime: sn_fd_closing(); the others return -ENOTSUP. Signal handlers: none.
 */
#ifndef SENNIT_FD_H
#define SENNIT_FD_H

#include <poll.h>

#include <sennit/base.h>

SN_BEGIN

/*
 * Waits until the descriptor is ready for one of the events. Returns the events that it is ready
 * for, always at least one, with POLLERR and POLLHUP among them. With a deadline that has passed it
 * only looks; a wait that has lasted until its deadline does not look again, because the number may
 * mean another descriptor at that time. May park.
 * Errors: -ETIMEDOUT past the deadline; -EBADF when the descriptor is not open, or is closed during
 * the wait (above); -EINVAL for an event that cannot be asked for; -ECANCELED or another reason,
 * when the task's scope is cancelled (scope.h); -ENOMEM; -ENOSPC past fs.epoll.max_user_watches, or
 * for a number of 1,048,576 or more; -EMFILE or -ENFILE when the descriptor is sennit's own, of
 * which the wait needs a copy; -EPERM for one that cannot be polled and is not ready; -ELOOP for
 * epoll descriptors nested too deeply; -ENOTSUP outside a task.
 */
SN_API int sn_fd_wait(int fd, int events, int64_t deadline);

/*
 * The same for several descriptors, as poll(2): fds[i].events is asked for, fds[i].revents is
 * written. A negative fd is skipped, and so are events that cannot be asked for; one that is not
 * open, or is closed during the wait, is reported as POLLNVAL. Returns how many have revents, at
 * least one; after an error revents is 0. With n of 0 it sleeps until the deadline. May park.
 * Errors: as sn_fd_wait(), but never -EBADF, and -EINVAL is for more descriptors than the process
 * may have (RLIMIT_NOFILE).
 */
SN_API int sn_fd_wait_any(struct pollfd *fds, size_t n, int64_t deadline);

/*
 * Announces that the descriptor is about to be closed: all waits for it end, those of sn_fd_wait()
 * with -EBADF, those of sn_fd_wait_any() with POLLNVAL. Any thread; does not park. Returns 0, also
 * when no task waits for it or no runtime runs; -EBADF for a negative number.
 */
SN_API int sn_fd_closing(int fd);

SN_END

#endif
