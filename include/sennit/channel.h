/* SPDX-License-Identifier: MIT */
/*
 * Channels, and select over them: how tasks pass values, and ownership with them, to each other.
 *
 * A channel carries elements of one size. Unbuffered (capacity 0), a send and a receive meet, and
 * the element is copied from the one's memory straight into the other's; buffered, sends go ahead
 * until the buffer is full. Elements arrive in the order in which they were sent; who waits longest
 * is served first. A value is received once, by one.
 *
 * Tasks and plain threads may mix on a channel: any thread may make any of these calls. Where a
 * task parks, a plain thread sleeps; plain threads need no runtime for that.
 *
 * The forms of waiting:
 *   sn_chan_send(), sn_chan_recv()       as long as it takes
 *   ..._until()                          until a deadline on sn_now()'s clock, then -ETIMEDOUT.
 *                                        SN_NO_DEADLINE, which is 0, is none; one that is past
 *                                        succeeds only if there is nothing to wait for
 *   sn_chan_try_...()                    not at all: -EAGAIN; as with the deadline SN_TRY. These
 *                                        never park.
 *
 * The errors of sending and receiving; after an error nothing was sent or received, and the memory
 * passed in is unchanged:
 *   -EPIPE       the channel is closed; for a receive: and what had been sent before is received
 *   -EAGAIN, -ETIMEDOUT   it would have to wait (longer)
 *   -ECANCELED   or another reason, -ETIMEDOUT for one: the scope of the calling task is cancelled
 *                (scope.h); also when there would be nothing to wait for
 *   -EINVAL      the channel is NULL, or was freed (see below), or the element is NULL, when the
 *                channel's elements have a size
 *   -ENOMEM      a task waits with a deadline, and there is no memory for its timer
 * A cancellation or deadline that comes together with success is one or the other, never both.
 *
 * Lifetime. Whoever makes a call keeps the channel from being freed until it returns. Tasks that
 * sn_run() abandons at its end may have been waiting in a channel: such a channel can only be freed
 * afterwards. In a child of fork() channels of the parent are not to be used.
 *
 * A channel that is used after it was freed is a mistake of the program's. Debug builds report it, with the
 * task, and abort. Others return -EINVAL, or do nothing where there is no error to return, as long
 * as nothing else has come to lie in the memory; after that it is undefined, as with free(). A channel
 * that was made there since is only taken for the freed one once in 128 times.
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

/* A deadline that says: not at all. The result is then -EAGAIN. */
#define SN_TRY INT64_MIN

/*
 * Makes a channel for elements of elem_size bytes (0: what is passed is only that something has
 * happened; elements may then be NULL), with a buffer for so many of them. The caller has the one
 * reference to it. Any thread; does not park. Returns 0; -EINVAL when chan is NULL, or the capacity
 * negative or beyond what memory can be; -ENOMEM.
 */
SN_API int sn_chan_new(sn_chan **chan, size_t elem_size, ssize_t capacity);

/*
 * How elements are moved that bytewise copying does not do for. The functions are called with the
 * channel's lock held: they must be short, must not throw, and call nothing of sennit's; destroy is
 * also called without it, by sn_chan_free().
 */
struct sn_elem_ops {
	/*
	 * Makes in the raw memory `to` what *from was. *from stays an element, which is destroyed
	 * then: in the buffer by destroy, elsewhere by the sender. NULL: the bytes are copied, and
	 * what they were copied from is no element any more.
	 */
	void (*move)(void *to, void *from);
	/* Ends the life of an element, such as one that is left in a channel that is freed. NULL:
	 * nothing to do. */
	void (*destroy)(void *elem);
};

/*
 * As sn_chan_new(); *ops must last as long as the channel (NULL: bytewise). Receivers pass raw
 * memory, in which they find an element after success; when a send fails the element stays the
 * sender's as it was. Elements cannot be received into NULL.
 */
SN_API int sn_chan_new_with(sn_chan **chan, size_t elem_size, ssize_t capacity,
			    const struct sn_elem_ops *ops);

/* One more reference, for another owner; returns the channel. NULL stays NULL. Any thread. */
SN_API sn_chan *sn_chan_ref(sn_chan *chan);

/*
 * Gives one reference back. The last one frees the channel, and destroys the elements in it; nobody
 * may be waiting in it then. NULL is allowed. Does not close. Any thread; does not park.
 */
SN_API void sn_chan_free(sn_chan *chan);

/*
 * No more sends: those that wait, and all later ones, get -EPIPE. Receivers still get what is in
 * the buffer, then -EPIPE. Any thread; does not park; works in a cancelled scope. Returns 0;
 * -EALREADY when it is closed already; -EINVAL for NULL.
 */
SN_API int sn_chan_close(sn_chan *chan);

/* 0 when *elem was sent, or one of the errors above. May park. Any thread. */
SN_API int sn_chan_send(sn_chan *chan, const void *elem);
SN_API int sn_chan_send_until(sn_chan *chan, const void *elem, int64_t deadline);
SN_API int sn_chan_try_send(sn_chan *chan, const void *elem);

/*
 * 0 when an element was received into *elem, or one of the errors above. elem may be NULL: the
 * element is thrown away. May park. Any thread.
 */
SN_API int sn_chan_recv(sn_chan *chan, void *elem);
SN_API int sn_chan_recv_until(sn_chan *chan, void *elem, int64_t deadline);
SN_API int sn_chan_try_recv(sn_chan *chan, void *elem);

/* How many elements lie in the buffer, at this moment; how many fit. 0 for NULL. Any thread. */
SN_API size_t sn_chan_len(const sn_chan *chan);
SN_API size_t sn_chan_cap(const sn_chan *chan);

/* ---- select ---- */

/* What a case of sn_select() does. */
enum sn_case_op {
	SN_CASE_RECV,
	SN_CASE_SEND,
};

/* One of the things that sn_select() may do. */
struct sn_case {
	sn_chan *chan; /* NULL: never ready */
	void *elem;    /* as for sn_chan_recv(), or sn_chan_send(), which only reads it */
	int op;        /* enum sn_case_op */
	int result;    /* out, of the case that was chosen: 0, or -EPIPE: the channel is closed */
};

/*
 * Does one of the cases, the first that can be done; of several that can be at once, one at random,
 * each as likely as the others. Returns its index. A closed channel's case can be done at once: its
 * result is then -EPIPE. The same channel may be in several cases.
 *
 * Waits until the deadline, then -ETIMEDOUT; with SN_TRY, or a deadline that is past, it does not
 * wait: Go's default. Without cases, or with none but NULL channels, it waits as long. Up to 16
 * cases need no memory but a kilobyte of the caller's stack.
 *
 * Errors: -EAGAIN, -ETIMEDOUT, -ECANCELED and the like, -ENOMEM, as above; -EINVAL for an unknown
 * op, a NULL element where one is needed, or more than INT_MAX cases. Then none of the cases was
 * done. May park. Any thread.
 */
SN_API int sn_select(struct sn_case *cases, size_t n, int64_t deadline);

SN_END

/* ---- with types, for C ---- */

#ifndef __cplusplus

/*
 * A channel of T, a type of its own that the compiler tells from a channel of anything else:
 *
 *	sn_chan_of(int) numbers;
 *
 *	if (sn_make_chan(&numbers, 16) == 0) {
 *		sn_send(numbers, 42);
 *		sn_recv(numbers, &i);
 *		sn_free_chan(numbers);
 *	}
 *
 * Any two sn_chan_of(T) are the same type, so they can be parameters, members, and elements
 * themselves. T is a complete type. It is the same pointer as the sn_chan underneath, which
 * sn_untyped() is for all calls that do not care; NULL is no channel. What it seems to point to
 * must not be touched.
 */
#	define sn_chan_of(T) __typeof__(__typeof__(T)(**)[])

#	define sn_untyped(chan) ((sn_chan *)((void)sizeof((**(chan))[0]), (void *)(chan)))

/*
 * The calls of similar names above, with results likewise. sn_make_chan() stores NULL when it
 * fails; sn_send() takes the value itself.
 */
#	define sn_make_chan(chan, capacity)                                                \
		__extension__({                                                             \
			sn_chan *sn__made = NULL;                                           \
			const int sn__err =                                                 \
				sn_chan_new(&sn__made, sizeof((***(chan))[0]), (capacity)); \
			*(chan) = (__typeof__(*(chan)))(void *)sn__made;                    \
			sn__err;                                                            \
		})
#	define sn_free_chan(chan) sn_chan_free(sn_untyped(chan))
#	define sn_close_chan(chan) sn_chan_close(sn_untyped(chan))

/* The value comes last, as there may be commas in it. */
#	define sn_send_until(chan, deadline, ...)                                   \
		__extension__({                                                      \
			__typeof__((**(chan))[0]) sn__elem = (__VA_ARGS__);          \
			sn_chan_send_until(sn_untyped(chan), &sn__elem, (deadline)); \
		})
#	define sn_send(chan, ...) sn_send_until(chan, SN_NO_DEADLINE, __VA_ARGS__)
#	define sn_try_send(chan, ...) sn_send_until(chan, SN_TRY, __VA_ARGS__)

#	define sn__elem_pointer(chan, elem) (1 ? (elem) : (__typeof__((**(chan))[0]) *)0)
#	define sn_recv_until(chan, elem, deadline) \
		sn_chan_recv_until(sn_untyped(chan), sn__elem_pointer(chan, elem), (deadline))
#	define sn_recv(chan, elem) sn_recv_until(chan, elem, SN_NO_DEADLINE)
#	define sn_try_recv(chan, elem) sn_recv_until(chan, elem, SN_TRY)

/* Initialisers of a struct sn_case: struct sn_case cases[] = {sn_case_recv(a, &x), ...}; */
#	define sn_case_recv(from, to)                                                \
		{                                                                     \
			.chan = sn_untyped(from), .elem = sn__elem_pointer(from, to), \
			.op = SN_CASE_RECV                                            \
		}
#	define sn_case_send(to, ...)                                                        \
		{                                                                            \
			.chan = sn_untyped(to),                                              \
			.elem = (void *)(uintptr_t)(1 ? (__VA_ARGS__)                        \
						      : (const __typeof__((**(to))[0]) *)0), \
			.op = SN_CASE_SEND                                                   \
		}

#endif

#endif
