/* SPDX-License-Identifier: MIT */
/*
 * The real functions that the hooks call: the next definitions in the order of symbol lookup. They
 * are libc's, or those of another library that also replaces them.
 *
 * Contract. Once this library's constructor has run, a call costs a load. An earlier call, from the
 * constructor of another library, first looks the functions up. That is safe, because the program
 * has only one thread then. glibc's dlsym() may allocate, and an allocator may lock; during the
 * lookup locks do nothing.
 */
#ifndef SENNIT_HOOKS_REAL_H
#define SENNIT_HOOKS_REAL_H

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "arch/compiler.h"
#include "hooks/database.h"

struct addrinfo;

/*
 * Where long has 32 bits, programs with 64-bit times (_TIME_BITS=64) call functions with other
 * names. These are their structures, whatever this library itself is compiled with.
 */
#if __SIZEOF_LONG__ == 4 && defined(__GLIBC__)
#	define SN_HOOK_TIME64 1
#else
#	define SN_HOOK_TIME64 0
#endif

struct sn_timespec64 {
	int64_t sec;
	int32_t nsec, unused; /* little-endian machines only */
};

struct sn_timeval64 {
	int64_t sec, usec;
};

/* X(result, name, parameters, arguments) */
#define SN_REAL_CALLS(X)                                                                           \
	X(ssize_t, read, (int fd, void *buf, size_t n), (fd, buf, n))                              \
	X(ssize_t, readv, (int fd, const struct iovec *iov, int count), (fd, iov, count))          \
	X(ssize_t, write, (int fd, const void *buf, size_t n), (fd, buf, n))                       \
	X(ssize_t, writev, (int fd, const struct iovec *iov, int count), (fd, iov, count))         \
	X(ssize_t, send, (int fd, const void *buf, size_t n, int flags), (fd, buf, n, flags))      \
	X(ssize_t, sendto,                                                                         \
	  (int fd, const void *buf, size_t n, int flags, const struct sockaddr *to,                \
	   socklen_t length),                                                                      \
	  (fd, buf, n, flags, to, length))                                                         \
	X(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags),                     \
	  (fd, message, flags))                                                                    \
	X(int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned n, int flags),                \
	  (fd, messages, n, flags))                                                                \
	X(ssize_t, sendfile, (int to, int from, void *offset, size_t n), (to, from, offset, n))    \
	X(ssize_t, sendfile64, (int to, int from, void *offset, size_t n), (to, from, offset, n))  \
	X(ssize_t, recv, (int fd, void *buf, size_t n, int flags), (fd, buf, n, flags))            \
	X(ssize_t, recvfrom,                                                                       \
	  (int fd, void *buf, size_t n, int flags, struct sockaddr *from, socklen_t *length),      \
	  (fd, buf, n, flags, from, length))                                                       \
	X(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))     \
	X(int, recvmmsg,                                                                           \
	  (int fd, struct mmsghdr *messages, unsigned n, int flags, struct timespec *timeout),     \
	  (fd, messages, n, flags, timeout))                                                       \
	X(int, socket, (int family, int type, int protocol), (family, type, protocol))             \
	X(int, connect, (int fd, const struct sockaddr *to, socklen_t length), (fd, to, length))   \
	X(int, accept, (int fd, struct sockaddr *from, socklen_t *length), (fd, from, length))     \
	X(int, accept4, (int fd, struct sockaddr *from, socklen_t *length, int flags),             \
	  (fd, from, length, flags))                                                               \
	X(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t length),     \
	  (fd, level, name, value, length))                                                        \
	X(int, fclose, (FILE * file), (file))                                                      \
	X(int, pclose, (FILE * file), (file))                                                      \
	X(FILE *, freopen, (const char *path, const char *mode, FILE *file), (path, mode, file))   \
	X(FILE *, freopen64, (const char *path, const char *mode, FILE *file), (path, mode, file)) \
	X(int, close_range, (unsigned first, unsigned last, int flags), (first, last, flags))      \
	X(int, close, (int fd), (fd))                                                              \
	X(int, dup, (int fd), (fd))                                                                \
	X(int, dup2, (int fd, int to), (fd, to))                                                   \
	X(int, dup3, (int fd, int to, int flags), (fd, to, flags))                                 \
	X(int, poll, (struct pollfd * fds, nfds_t n, int timeout), (fds, n, timeout))              \
	X(int, ppoll,                                                                              \
	  (struct pollfd * fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask),   \
	  (fds, n, timeout, mask))                                                                 \
	X(int, select, (int n, fd_set *in, fd_set *out, fd_set *special, struct timeval *timeout), \
	  (n, in, out, special, timeout))                                                          \
	X(int, pselect,                                                                            \
	  (int n, fd_set *in, fd_set *out, fd_set *special, const struct timespec *timeout,        \
	   const sigset_t *mask),                                                                  \
	  (n, in, out, special, timeout, mask))                                                    \
	X(int, epoll_wait, (int fd, struct epoll_event *events, int n, int timeout),               \
	  (fd, events, n, timeout))                                                                \
	X(unsigned, sleep, (unsigned seconds), (seconds))                                          \
	X(int, usleep, (useconds_t us), (us))                                                      \
	X(int, nanosleep, (const struct timespec *time, struct timespec *left), (time, left))      \
	X(int, clock_nanosleep,                                                                    \
	  (clockid_t clock, int flags, const struct timespec *time, struct timespec *left),        \
	  (clock, flags, time, left))                                                              \
	X(int, thrd_sleep, (const struct timespec *time, struct timespec *left), (time, left))     \
	X(int, getaddrinfo,                                                                        \
	  (const char *node, const char *service, const struct addrinfo *hints,                    \
	   struct addrinfo **result),                                                              \
	  (node, service, hints, result))

/* Calls that lock, try to lock, or unlock; they return 0 on success. */
#define SN_REAL_LOCKS(X)                                                                        \
	X(int, pthread_mutex_lock, (pthread_mutex_t * lock), (lock))                            \
	X(int, pthread_mutex_trylock, (pthread_mutex_t * lock), (lock))                         \
	X(int, pthread_mutex_timedlock, (pthread_mutex_t * lock, const struct timespec *until), \
	  (lock, until))                                                                        \
	X(int, pthread_mutex_clocklock,                                                         \
	  (pthread_mutex_t * lock, clockid_t clock, const struct timespec *until),              \
	  (lock, clock, until))                                                                 \
	X(int, pthread_mutex_unlock, (pthread_mutex_t * lock), (lock))                          \
	X(int, pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock))                        \
	X(int, pthread_rwlock_tryrdlock, (pthread_rwlock_t * lock), (lock))                     \
	X(int, pthread_rwlock_timedrdlock,                                                      \
	  (pthread_rwlock_t * lock, const struct timespec *until), (lock, until))               \
	X(int, pthread_rwlock_wrlock, (pthread_rwlock_t * lock), (lock))                        \
	X(int, pthread_rwlock_trywrlock, (pthread_rwlock_t * lock), (lock))                     \
	X(int, pthread_rwlock_timedwrlock,                                                      \
	  (pthread_rwlock_t * lock, const struct timespec *until), (lock, until))               \
	X(int, pthread_rwlock_clockrdlock,                                                      \
	  (pthread_rwlock_t * lock, clockid_t clock, const struct timespec *until),             \
	  (lock, clock, until))                                                                 \
	X(int, pthread_rwlock_clockwrlock,                                                      \
	  (pthread_rwlock_t * lock, clockid_t clock, const struct timespec *until),             \
	  (lock, clock, until))                                                                 \
	X(int, pthread_rwlock_unlock, (pthread_rwlock_t * lock), (lock))                        \
	X(int, pthread_once, (pthread_once_t * once, void (*fn)(void)), (once, fn))             \
	X(int, pthread_spin_lock, (pthread_spinlock_t * lock), (lock))                          \
	X(int, pthread_spin_trylock, (pthread_spinlock_t * lock), (lock))                       \
	X(int, pthread_spin_unlock, (pthread_spinlock_t * lock), (lock))                        \
	X(int, mtx_lock, (mtx_t * lock), (lock))                                                \
	X(int, mtx_trylock, (mtx_t * lock), (lock))                                             \
	X(int, mtx_timedlock, (mtx_t * lock, const struct timespec *until), (lock, until))      \
	X(int, mtx_unlock, (mtx_t * lock), (lock))                                              \
	X(int, ftrylockfile, (FILE * file), (file))                                             \
	X(int, _IO_ftrylockfile, (FILE * file), (file))

/* Calls that return nothing. During the lookup of the functions they need not do anything. */
#define SN_REAL_VOIDS(X)                                                     \
	X(void, closefrom, (int first), (first))                             \
	X(void, call_once, (once_flag * once, void (*fn)(void)), (once, fn)) \
	X(void, flockfile, (FILE * file), (file))                            \
	X(void, _IO_flockfile, (FILE * file), (file))                        \
	X(void, funlockfile, (FILE * file), (file))                          \
	X(void, _IO_funlockfile, (FILE * file), (file))

#if SN_HOOK_TIME64
#	define SN_REAL_CALLS64(X)                                                                 \
		X(ssize_t, __sendmsg64, (int fd, const struct msghdr *message, int flags),         \
		  (fd, message, flags))                                                            \
		X(ssize_t, __recvmsg64, (int fd, struct msghdr *message, int flags),               \
		  (fd, message, flags))                                                            \
		X(int, __sendmmsg64, (int fd, struct mmsghdr *messages, unsigned n, int flags),    \
		  (fd, messages, n, flags))                                                        \
		X(int, __recvmmsg64,                                                               \
		  (int fd, struct mmsghdr *messages, unsigned n, int flags,                        \
		   struct sn_timespec64 *timeout),                                                 \
		  (fd, messages, n, flags, timeout))                                               \
		X(int, __setsockopt64,                                                             \
		  (int fd, int level, int name, const void *value, socklen_t length),              \
		  (fd, level, name, value, length))                                                \
		X(int, __ppoll64,                                                                  \
		  (struct pollfd * fds, nfds_t n, const struct sn_timespec64 *timeout,             \
		   const sigset_t *mask),                                                          \
		  (fds, n, timeout, mask))                                                         \
		X(int, __select64,                                                                 \
		  (int n, fd_set *in, fd_set *out, fd_set *special, struct sn_timeval64 *timeout), \
		  (n, in, out, special, timeout))                                                  \
		X(int, __pselect64,                                                                \
		  (int n, fd_set *in, fd_set *out, fd_set *special,                                \
		   const struct sn_timespec64 *timeout, const sigset_t *mask),                     \
		  (n, in, out, special, timeout, mask))                                            \
		X(int, __nanosleep64,                                                              \
		  (const struct sn_timespec64 *time, struct sn_timespec64 *left), (time, left))    \
		X(int, __clock_nanosleep_time64,                                                   \
		  (clockid_t clock, int flags, const struct sn_timespec64 *time,                   \
		   struct sn_timespec64 *left),                                                    \
		  (clock, flags, time, left))                                                      \
		X(int, __thrd_sleep64,                                                             \
		  (const struct sn_timespec64 *time, struct sn_timespec64 *left), (time, left))
#	define SN_REAL_LOCKS64(X)                                                               \
		X(int, __pthread_mutex_timedlock64,                                              \
		  (pthread_mutex_t * lock, const struct sn_timespec64 *until), (lock, until))    \
		X(int, __pthread_mutex_clocklock64,                                              \
		  (pthread_mutex_t * lock, clockid_t clock, const struct sn_timespec64 *until),  \
		  (lock, clock, until))                                                          \
		X(int, __pthread_rwlock_timedrdlock64,                                           \
		  (pthread_rwlock_t * lock, const struct sn_timespec64 *until), (lock, until))   \
		X(int, __pthread_rwlock_timedwrlock64,                                           \
		  (pthread_rwlock_t * lock, const struct sn_timespec64 *until), (lock, until))   \
		X(int, __pthread_rwlock_clockrdlock64,                                           \
		  (pthread_rwlock_t * lock, clockid_t clock, const struct sn_timespec64 *until), \
		  (lock, clock, until))                                                          \
		X(int, __pthread_rwlock_clockwrlock64,                                           \
		  (pthread_rwlock_t * lock, clockid_t clock, const struct sn_timespec64 *until), \
		  (lock, clock, until))                                                          \
		X(int, __mtx_timedlock64, (mtx_t * lock, const struct sn_timespec64 *until),     \
		  (lock, until))
#else
#	define SN_REAL_CALLS64(X)
#	define SN_REAL_LOCKS64(X)
#endif

struct sn_real {
#define SN_REAL_FIELD(result, name, parameters, arguments) result(*name) parameters;
	SN_REAL_CALLS(SN_REAL_FIELD)
	SN_REAL_DATABASES(SN_REAL_FIELD)
	SN_REAL_DATABASE_VOIDS(SN_REAL_FIELD)
	SN_REAL_CALLS64(SN_REAL_FIELD)
	SN_REAL_LOCKS(SN_REAL_FIELD)
	SN_REAL_VOIDS(SN_REAL_FIELD)
	SN_REAL_LOCKS64(SN_REAL_FIELD)
	int (*fcntl)(int fd, int command, ...);
	int (*fcntl64)(int fd, int command, ...);
#if SN_HOOK_TIME64
	int (*__fcntl_time64)(int fd, int command, ...);
#endif
};

extern struct sn_real sn_real sn_hidden;

#endif
