/* SPDX-License-Identifier: MIT */
/*
 * Turns: for calls that no flag keeps from blocking, on descriptors that several tasks use.
 *
 * accept(), and reading or writing what RWF_NOWAIT does not work for (eventfds for writing,
 * terminals, and before Linux 6.5 pipes, before 6.10 timerfds), can only be looked at by poll()
 * first. Of 40 tasks that wait for one event, poll() would tell all 40 that it is there; 39 would
 * then block their threads, where no cancellation reaches them. So one task at a time looks and
 * makes the call: it has the descriptor's turn. The next one looks after that, and waits again if
 * nothing is left.
 *
 * A turn is short, because the call does not block after the look. So there is no list of tasks
 * that wait for a turn: they yield, and then sleep. That matters when the call blocks all the same,
 * with the turn. The other tasks are then not behind it: mostly the descriptor is not ready, and
 * they wait for that as always. If it stays ready for poll(), they make the call without a turn in
 * the end, as they did without hooks.
 *
 * What can still take the event between the look and the call, so that the call blocks its thread:
 * another process that shares the description; a thread outside the tasks, or a task without hooks;
 * a call that does not take turns (recv() on the one side, and calls that are passed through, on
 * the other); the same description under another number. A write() to an eventfd of more than it
 * has room for blocks in the same way, since poll() tells only that there is room for 1.
 *
 * A turn is a word of a table, by the descriptor's number. Two numbers may have the same word,
 * which makes one wait for the other's short call. The word is the address of the owner's notes,
 * which are on its stack, so that nobody else gives the turn back after the descriptor was closed
 * during the call.
 *
 * models/hook_turn.pml has this.
 *
 * Rejected: O_NONBLOCK on the description, which others share. SO_RCVTIMEO for accept(): others
 * would see it, and each look would block for a tick. A list, as in io/turns.h: it would have to
 * outlive the run, as a call that blocks with the turn does.
 */
#ifndef SENNIT_HOOKS_TURN_H
#define SENNIT_HOOKS_TURN_H

#include "hooks/call.h"

/* Of one call, on its stack. */
struct sn_hook_turn {
	_Atomic uintptr_t *word;
};

/* Waits until the call can be made. PASS: make it, and give the turn back afterwards, also if no
 * turn was taken because the call should block. FAIL: errno is set, and there is no turn. May park,
 * but the task must not park while it has the turn. timeout: as in struct sn_hook_call. */
enum sn_hook_step sn_hook_turn_take(struct sn_hook_turn *turn, int fd, short events,
				    int timeout) sn_hidden;
/* Leaves errno alone. */
void sn_hook_turn_give(struct sn_hook_turn *turn) sn_hidden;

/* The descriptor is about to be closed: calls that block with its turn have nothing to do with the
 * next descriptor of that number. */
void sn_hook_turns_forget(int fd) sn_hidden;

#endif
