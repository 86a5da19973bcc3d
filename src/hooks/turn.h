/* SPDX-License-Identifier: MIT */
/*
 * Turns: for calls that no flag keeps from blocking, on descriptors that several tasks use.
 *
 * Before accept(), and before reading or writing descriptors without RWF_NOWAIT (eventfds for
 * writing, terminals, pipes before Linux 6.5, timerfds before 6.10), a hook can only poll. If 40
 * tasks wait for one event, poll() reports it to all 40; 39 would then block their threads, where
 * no cancellation reaches them. Therefore one task at a time polls and makes the call: it has the
 * descriptor's turn. The next task polls after that, and waits again if nothing is left.
 *
 * A turn is short, because the call does not block after the poll. Tasks that wait for a turn
 * therefore have no list: they yield, and then sleep. If a call blocks all the same, with the turn,
 * the other tasks do not depend on it: mostly the descriptor is not ready, and they wait for it as
 * usual. If poll() keeps reporting it as ready, they finally make the call without a turn, as they
 * would without hooks.
 *
 * The call can still block its thread if another party takes the event between the poll and the
 * call: another process that shares the description; a thread outside the tasks, or a task without
 * hooks; a call that does not take turns (recv(), or one that is passed through); the same
 * description under another number. A write() to an eventfd of more than it has room for blocks in
 * the same way, because poll() reports only that there is room for 1.
 *
 * A turn is a word of a table, by the descriptor's number. Two numbers may share a word, and then a
 * task waits for the short call of a task with the other number. The word is 0 or the address of
 * the owner's struct sn_hook_turn, which is on its stack. Only the owner stores that address and
 * replaces it by 0, by compare-and-swap; a thread that closes the descriptor stores 0. If the
 * descriptor was closed during the call, the owner's compare-and-swap fails, so that the owner does
 * not give another task's turn back. In a child of fork() all words become 0. A handler of a signal
 * that leaves the call by siglongjmp() leaves the word as it is, until the descriptor is closed
 * (docs/hooks.md).
 *
 * models/hook_turn.pml models this.
 *
 * Rejected: O_NONBLOCK on the description, which other processes may share. SO_RCVTIMEO for
 * accept(): the other processes would see it, and each attempt would block for a tick. A list, as
 * in io/side_queue.h: it would have to outlive the run, because a call that blocks with the turn
 * does.
 */
#ifndef SENNIT_HOOKS_TURN_H
#define SENNIT_HOOKS_TURN_H

#include "hooks/call.h"

/* The turn of one call, on its stack. */
struct sn_hook_turn {
	_Atomic uintptr_t *word;
};

/*
 * Waits until the call can be made. After PASS the caller makes it, and then gives the turn back;
 * this also holds if no turn was taken because the call should block. After FAIL errno is set, and
 * there is no turn. May park, but the task must not park while it has the turn. timeout: as in
 * struct sn_hook_call.
 */
enum sn_hook_step sn_hook_turn_take(struct sn_hook_turn *turn, int fd, short events,
				    int timeout) sn_hidden;
/* Gives the turn back, if it was taken. Leaves errno alone. */
void sn_hook_turn_give(struct sn_hook_turn *turn) sn_hidden;

/* Called when the descriptor is about to be closed: a call that still blocks with the turn must not
 * keep the next descriptor with that number from getting it. */
void sn_hook_turns_forget(int fd) sn_hidden;

#endif
