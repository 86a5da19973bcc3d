/* SPDX-License-Identifier: MIT */
/*
 * Channels: how tasks pass values, and ownership with them, to each other. select.h waits for
 * several of them at the same time.
 *
 * A channel carries elements of one size. Without a buffer (capacity 0) a send and a receive meet,
 * and the element is copied straight from the sender's memory into the receiver's. With a buffer,
 * sends proceed until it is full. Elements arrive in the order in which they were sent; the waiter
 * that has waited longest is served first. Each value is received exactly once.
 *
 * Tasks and plain threads may share a channel: any thread may make any of these calls. Where a task
 * parks, a plain thread sleeps; plain threads need no runtime for that.
 *
 * The forms of waiting:
 *   sn_chan_send(), sn_chan_recv()       as long as it takes
 *   ..._until()                          until a deadline on sn_now()'s clock, then -ETIMEDOUT.
 *                                        SN_NO_DEADLINE, which is 0, means none. With a deadline
 *                                        in the past the call succeeds only if it need not wait
 *   sn_chan_try_...()                    not at all: -EAGAIN, as with the deadline SN_TRY. These
 *                                        never park.
 *
 * The errors of sending and receiving. After an error nothing was sent or received, and the memory
 * passed in is unchanged:
 *   -EPIPE       the channel is closed and, for a receive, its buffer is empty
 *   -EAGAIN, -ETIMEDOUT   the call would have to wait (longer)
 *   -ECANCELED   the scope of the calling task is cancelled; the scope may have another reason,
 *                such as -ETIMEDOUT (scope.h). The call fails even if it would not have to wait
 *   -EINVAL      the channel is NULL or was freed (see below), or the element is NULL although the
 *                channel's elements have a size
 *   -ENOMEM      a task waits with a deadline, and there is no memory for its timer
 * When a cancellation or deadline coincides with success, the result is one or the other, never
 * both.
 *
 * Lifetime. The caller ensures that the channel is not freed before its call returns. Tasks that
 * sn_run() abandons at its end may be waiting in a channel: all that can be done with such a
 * channel afterwards, also in a later run, is to free it. A plain thread must not be in a call with
 * such a channel when the first task returns (base.h): a program closes the channel, or joins the
 * thread, before that. A child of fork() must not use channels of the parent.
 *
 * Using a channel after it was freed is a programming error. Debug builds report it, with the task,
 * and abort. Others return -EINVAL, or do nothing where there is no error to return, as long as the
 * memory has not been reused; after that the behaviour is undefined, as with free(). A new channel
 * in the same memory is mistaken for the freed one only once in 128 times.
 *
 * C programs can have the compiler check the type of what goes through a channel: see the end.
 *
 * Threads outside the runtime: all calls. Signal handlers: none.
 */
#ifndef SENNIT_CHANNEL_H
#define SENNIT_CHANNEL_H

#include <sennit/base.h>

SN_BEGIN

/* A channel. */
typedef struct sn_chan sn_chan;

/* A deadline that means: do not wait. The result is then -EAGAIN. */
#define SN_TRY INT64_MIN

/*
 * Makes a channel for elements of elem_size bytes, with a buffer for `capacity` of them. With
 * elem_size 0 a send only signals that something has happened, and elements may be NULL. The caller
 * has the only reference. Any thread; does not park. Returns 0; -EINVAL when chan is NULL, or the
 * capacity is negative or larger than memory allows; -ENOMEM.
 */
SN_API SN_CHECK_RESULT int sn_chan_new(sn_chan **chan, size_t elem_size, ssize_t capacity);

/*
 * How to move elements that cannot be copied bytewise. The functions are called with the channel's
 * lock held: they must be short, must not throw, and must not call sennit. sn_chan_unref() calls
 * destroy without the lock.
 */
struct sn_elem_ops {
	/*
	 * Constructs in the raw memory `to` the value of *from. *from stays an element that is
	 * destroyed afterwards: by destroy if it lies in the buffer, otherwise by the sender. NULL:
	 * the bytes are copied, and their source is no longer an element.
	 */
	void (*move)(void *to, void *from);
	/* Destroys an element, such as one that is left in a channel when it is freed. NULL: there
	 * is nothing to do. */
	void (*destroy)(void *elem);
};

/*
 * As sn_chan_new(); *ops must live as long as the channel (NULL: copy bytewise). Receivers pass raw
 * memory, which holds an element after success. When a send fails, the element stays the sender's,
 * unchanged. Receiving into NULL is not allowed.
 */
SN_API SN_CHECK_RESULT int sn_chan_new_with_ops(sn_chan **chan, size_t elem_size, ssize_t capacity,
						const struct sn_elem_ops *ops);

/* Takes one more reference, for another owner; returns the channel. NULL stays NULL. Any thread. */
SN_API sn_chan *sn_chan_ref(sn_chan *chan);

/*
 * Drops one reference. The last one frees the channel and destroys the elements in it, without
 * closing it. To drop it while others wait in the channel is a mistake, unless they are tasks that
 * the end of their run has abandoned: debug builds abort; other builds close the channel, so that
 * the waiting calls return -EPIPE, and never free its memory.
 * NULL is allowed. Any thread; does not park.
 */
SN_API void sn_chan_unref(sn_chan *chan);

/*
 * Ends sending: sends that wait, and all later ones, get -EPIPE. Receivers still get what is in the
 * buffer, then -EPIPE. Any thread; does not park; works in a cancelled scope. Returns 0; -EPIPE
 * when it is closed already; -EINVAL for NULL.
 */
SN_API int sn_chan_close(sn_chan *chan);

/* Return 0 when *elem was sent, or one of the errors above. May park. Any thread. */
SN_API SN_CHECK_RESULT int sn_chan_send(sn_chan *chan, const void *elem);
SN_API SN_CHECK_RESULT int sn_chan_send_until(sn_chan *chan, const void *elem, int64_t deadline);
SN_API SN_CHECK_RESULT int sn_chan_try_send(sn_chan *chan, const void *elem);

/*
 * Return 0 when an element was received into *elem, or one of the errors above. If elem is NULL,
 * the element is discarded. May park. Any thread.
 */
SN_API SN_CHECK_RESULT int sn_chan_recv(sn_chan *chan, void *elem);
SN_API SN_CHECK_RESULT int sn_chan_recv_until(sn_chan *chan, void *elem, int64_t deadline);
SN_API SN_CHECK_RESULT int sn_chan_try_recv(sn_chan *chan, void *elem);

/* How many elements are in the buffer at this moment, and how many fit. 0 for NULL. Any thread. */
SN_API size_t sn_chan_len(const sn_chan *chan);
SN_API size_t sn_chan_cap(const sn_chan *chan);

SN_END

/* ---- with types, for C ---- */

#ifndef __cplusplus

/*
 * A channel of T, a type of its own, so the compiler distinguishes it from other channels:
 *
 *	sn_chan_of(int) numbers;
 *
 *	if (sn_chan_new_of(&numbers, 16) == 0) {
 *		sn_send(numbers, 42);
 *		sn_recv(numbers, &i);
 *		sn_chan_unref_of(numbers);
 *	}
 *
 * Any two sn_chan_of(T) are the same type, so they can be parameters, members, and elements
 * themselves. T must be a complete type. The pointer is the same as the sn_chan underneath, which
 * sn_untyped() gives for the calls that do not depend on T; NULL is no channel. What the typed
 * pointer appears to point to must not be accessed.
 */
#	define sn_chan_of(T) __typeof__(__typeof__(T)(**)[])

#	define sn_untyped(chan) ((sn_chan *)((void)sizeof((**(chan))[0]), (void *)(chan)))

/*
 * As the calls of similar names above, with the same results. sn_chan_new_of() stores NULL when it
 * fails; sn_send() takes the value itself.
 */
#	define sn_chan_new_of(chan, capacity)                                                     \
		__extension__({                                                                    \
			sn_chan *sn_private_made = NULL;                                           \
			const int sn_private_err =                                                 \
				sn_chan_new(&sn_private_made, sizeof((***(chan))[0]), (capacity)); \
			*(chan) = (__typeof__(*(chan)))(void *)sn_private_made;                    \
			sn_private_err;                                                            \
		})
#	define sn_chan_unref_of(chan) sn_chan_unref(sn_untyped(chan))
#	define sn_chan_close_of(chan) sn_chan_close(sn_untyped(chan))

/* The value comes last because it may contain commas. */
#	define sn_send_until(chan, deadline, ...)                                          \
		__extension__({                                                             \
			__typeof__((**(chan))[0]) sn_private_elem = (__VA_ARGS__);          \
			sn_chan_send_until(sn_untyped(chan), &sn_private_elem, (deadline)); \
		})
#	define sn_send(chan, ...) sn_send_until(chan, SN_NO_DEADLINE, __VA_ARGS__)
#	define sn_try_send(chan, ...) sn_send_until(chan, SN_TRY, __VA_ARGS__)

#	define sn_private_elem_pointer(chan, elem) (1 ? (elem) : (__typeof__((**(chan))[0]) *)0)
#	define sn_recv_until(chan, elem, deadline)                                       \
		sn_chan_recv_until(sn_untyped(chan), sn_private_elem_pointer(chan, elem), \
				   (deadline))
#	define sn_recv(chan, elem) sn_recv_until(chan, elem, SN_NO_DEADLINE)
#	define sn_try_recv(chan, elem) sn_recv_until(chan, elem, SN_TRY)

#endif

#endif
