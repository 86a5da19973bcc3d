/* SPDX-License-Identifier: MIT */
#include "hooks/turn.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include <sennit/task.h>

/* The size of the table, a power of two. */
#define WORDS 4096

/* How often a task that finds the turn taken yields, and how often it then sleeps, from 1 ms to 512
 * ms, because the owner's thread may have lost its CPU. */
#define YIELDS 64
#define SLEEPS 10
#define SLEEP_NS INT64_C(1000000)

static _Atomic uintptr_t words[2][WORDS]; /* for reading, for writing: 0, or the owner's turn */

static _Atomic uintptr_t *word_of(int fd, bool writes)
{
	return &words[writes][(unsigned)fd % WORDS];
}

/* Acquire, with the release in sn_hook_turn_give(): the poll comes after the call of the previous
 * owner. */
static bool take(struct sn_hook_turn *turn)
{
	uintptr_t nobody = 0;

	return atomic_compare_exchange_strong_explicit(turn->word, &nobody, (uintptr_t)turn,
						       memory_order_acquire, memory_order_relaxed);
}

void sn_hook_turn_give(struct sn_hook_turn *turn)
{
	uintptr_t mine = (uintptr_t)turn;

	atomic_compare_exchange_strong_explicit(turn->word, &mine, 0, memory_order_release,
						memory_order_relaxed);
}

void sn_hook_turns_forget(int fd)
{
	for (int writes = 0; writes < 2; writes++) {
		_Atomic uintptr_t *word = word_of(fd, writes);

		/* Relaxed: nothing depends on a turn that begins while its descriptor is being
		 * closed. */
		if (atomic_load_explicit(word, memory_order_relaxed))
			atomic_store_explicit(word, 0, memory_order_relaxed);
	}
}

/* In a child of fork() the owners do not exist, except a task that forks in a signal handler: it
 * then gives back what it no longer has, which does nothing. Looks first, so that the child gets no
 * pages of its own for words that are 0. */
static void forget_all(void)
{
	for (int writes = 0; writes < 2; writes++)
		for (int i = 0; i < WORDS; i++)
			if (atomic_load_explicit(&words[writes][i], memory_order_relaxed))
				atomic_store_explicit(&words[writes][i], 0, memory_order_relaxed);
}

__attribute__((constructor)) static void begin(void)
{
	pthread_atfork(NULL, NULL, forget_all);
}

/* Waits a moment, because another task has the turn although the descriptor is ready. */
static enum sn_hook_step await_turn(struct sn_hook_call *call, int *times)
{
	const enum sn_hook_step step = sn_hook_begin(call);
	int err;

	if (step != SN_HOOK_AGAIN)
		return step;
	if (++*times <= YIELDS) {
		sn_foreign_tie();
		sn_yield();
		sn_hook_back();
		return SN_HOOK_AGAIN;
	}
	if (*times > YIELDS + SLEEPS) {
		sn_hook_count_pass();
		return SN_HOOK_PASS;
	}
	sn_foreign_tie();
	err = sn_sleep(SLEEP_NS << (*times - YIELDS - 1));
	sn_hook_back();
	return err == 0 ? SN_HOOK_AGAIN : sn_hook_ended(err, EAGAIN);
}

enum sn_hook_step sn_hook_turn_take(struct sn_hook_turn *turn, int fd, short events, int timeout)
{
	struct sn_hook_call call = {.fd = fd, .events = events, .timeout = timeout};
	struct pollfd one = {.fd = fd, .events = events};
	enum sn_hook_step step;
	int times = 0;

	turn->word = word_of(fd, events == POLLOUT);
	do {
		const bool taken = take(turn);
		const bool ready = sn_real.poll(&one, 1, 0) != 0;
		const bool closed = ready && (one.revents & POLLNVAL);

		if (taken && ready && !closed)
			return SN_HOOK_PASS;
		if (taken)
			sn_hook_turn_give(turn);
		if (closed) {
			sn_hook_fail(EBADF);
			step = SN_HOOK_FAIL;
		} else if (ready) {
			step = await_turn(&call, &times);
		} else {
			times = 0;
			call.rounds = 0; /* nothing was tried */
			step = sn_hook_wait(&call);
		}
	} while (step == SN_HOOK_AGAIN);
	return step;
}
