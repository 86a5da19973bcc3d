/* SPDX-License-Identifier: MIT */
/*
 * Programs that were started, and the tasks that keep them.
 *
 * Each has a keeper: a task that waits for its end, takes its status from the kernel, and wakes
 * those that wait for it. So no waiter depends on another, and there is no zombie when nobody
 * waits. The keeper is a task of the scope where the program is to end with it: then the scope
 * cannot be closed before the program has ended, and the keeper notices its cancellation. It is
 * spawned before the program is started, because nothing may fail once there is a program.
 *
 * Life. A record has users: the handle, the keeper, and each call in progress. The last one frees
 * it, for later programs; the memory stays. Handles have generations (base/handle.h), so a stale
 * one is recognized.
 *
 * The kernel gives the number of a process away again once its status has been taken. So the status
 * is taken, and signals are sent by number, under the lock, and no signal is sent after the end.
 *
 * At the end of a run the keepers are abandoned with all other tasks. Programs that still run are
 * then put into a list, and are looked at again whenever a program is started.
 *
 * Who may write what: everything under the lock, except
 *   started, ended              wait groups: from 1 to 0 by the starter, and by the keeper
 *   status, result              the keeper, before ended is 0
 *   leads_group, ends, grace    the starter, before the keeper exists
 *   streams                     the starter, before there is a handle
 *   polls                       the keeper
 */
#ifndef SENNIT_PROCESS_PROCESS_H
#define SENNIT_PROCESS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include <sennit/process.h>
#include <sennit/waitgroup.h>

#include "base/fork.h"
#include "base/handle.h"
#include "wait/lock.h"

struct sn_process {
	_Alignas(SN_HANDLE_ALIGN) uint32_t generation;
	uint32_t users;
	bool runs;        /* it was started, and its status has not been taken */
	bool has_handle;  /* the program has not given it back */
	bool leads_group; /* its group's number is its own */
	bool in_scope;    /* it ends with its scope */
	bool sweeps;      /* the rest of its group is killed when it has ended */
	bool polls;       /* its pidfd is not one that can be waited for */
	pid_t pid;
	int pidfd; /* -1: none */
	int64_t grace;
	sn_waitgroup started, ended;
	struct sn_process_status status;
	int result;            /* of waiting for it: 0 or -ECHILD */
	sn_stream *streams[3]; /* equal for a terminal; NULL: none */
	struct sn_process *prev, *next;
};

/* Guards all of them. */
extern struct sn_lock sn_processes_lock;

/* With the lock. Whether the program has ended; its status has then been taken. */
bool sn_process_take_status(struct sn_process *process);

/* With the lock: sn_process_kill() and sn_process_kill_group(). */
int sn_process_send(const struct sn_process *process, int signum);
int sn_process_send_group(const struct sn_process *process, int signum);

/* With the lock. Sends the signal to the program, or to its group if it leads one. What is left of
 * that when its leader has ended is killed. */
void sn_process_stop(struct sn_process *process, int signum);

/* The keeper's work: until the program has ended, and its status has been taken. If the scope that
 * the task works in is cancelled, ends the program. Outside the runtime; parks. */
void sn_process_keep(struct sn_process *process);

/*
 * sn_process_start(); with ours not NULL, our ends are not made streams: ours[number] gets the
 * descriptor, which is the caller's then, or -1. In a task, outside the runtime.
 */
int sn_process_launch(sn_process **process, const char *const argv[],
		      const struct sn_process_attr *attr, int ours[3]);

/* At the end of a run, when no task runs. */
void sn_processes_end(void);
void sn_processes_fork(enum sn_fork_phase phase);

#endif
