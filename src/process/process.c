/* SPDX-License-Identifier: MIT */
#include "process/process.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sennit/blocking.h>
#include <sennit/clock.h>
#include <sennit/fd.h>
#include <sennit/scope.h>
#include <sennit/semaphore.h>
#include <sennit/task.h>

#include "arch/sized.h"
#include "base/standard.h"
#include "process/process_launch.h"
#include "sched/collector.h"
#include "stream/stream.h"
#include "wait/lock.h"

static struct sn_process *in_use; /* all records that have users */
static struct sn_process *unused; /* linked by next */
static struct sn_process *left;   /* programs that ran when their run ended; linked by next */

/*
 * How many programs are loaded at the same time. Each takes a thread for a millisecond or so, and
 * without a limit a hundred tasks that start a program each would take a hundred threads. The
 * kernel may take much longer, for example with a program on a network file system. Therefore a
 * start that has waited for START_WAIT_NS continues regardless.
 */
#define MOST_STARTS 2
#define START_WAIT_NS 1000000000

static const sn_semaphore all_starts = SN_SEMAPHORE_INIT(MOST_STARTS);
static sn_semaphore starts = SN_SEMAPHORE_INIT(MOST_STARTS);

/* ---- records; the lock is held ---- */

static void link_record(struct sn_process *process)
{
	process->prev = NULL;
	process->next = in_use;
	if (in_use)
		in_use->prev = process;
	in_use = process;
}

static void unlink_record(struct sn_process *process)
{
	if (process->next)
		process->next->prev = process->prev;
	if (process->prev)
		process->prev->next = process->next;
	else
		in_use = process->next;
}

/* Returns false if the run in which the record had this generation has ended, and the record is not
 * the caller's any more. */
static bool is_current(const struct sn_process *process, uint32_t generation)
{
	return process->generation == generation;
}

static void dispose(struct sn_process *process)
{
	process->generation = sn_handle_next(process->generation);
	process->next = unused;
	unused = process;
}

static void leave(struct sn_process *process)
{
	if (--process->users > 0)
		return;
	unlink_record(process);
	dispose(process);
}

/* Closes a parent's end that is a descriptor. */
static void close_raw_one(struct sn_process *process, int number)
{
	sn_checked_pass(); /* closing a pipe, or the master of a terminal, does not wait */
	if (process->ends[number] >= 0)
		close(process->ends[number]);
	sn_checked_pass_end();
	process->ends[number] = -1;
}

static void close_raw(struct sn_process *process)
{
	for (int number = 0; number < 3; number++)
		close_raw_one(process, number);
}

/* Puts the record away at the end of its run. A program that still runs is killed if it is in a
 * scope. */
static void put_away(struct sn_process *process)
{
	if (!process->runs) {
		dispose(process);
		return;
	}
	if (process->in_scope)
		sn_process_stop(process, SIGKILL);
	process->next = left;
	left = process;
}

/* ---- records ---- */

/* Makes a record with one user, the starter, and no handle yet. Returns NULL if there is no
 * memory. */
static struct sn_process *create(void)
{
	struct sn_process *process;
	uint32_t generation;

	sn_lock(&sn_processes_lock);
	process = unused;
	if (process)
		unused = process->next;
	sn_unlock(&sn_processes_lock);
	if (!process) {
		process = aligned_alloc(SN_HANDLE_ALIGN, sizeof *process);
		if (!process)
			return NULL;
		process->generation = 1;
	}
	generation = process->generation;
	*process = (struct sn_process){
		.generation = generation, .users = 1, .pidfd = -1, .ends = {-1, -1, -1}};
	sn_lock(&sn_processes_lock);
	link_record(process);
	sn_unlock(&sn_processes_lock);
	return process;
}

static void release(struct sn_process *process)
{
	sn_lock(&sn_processes_lock);
	leave(process);
	sn_unlock(&sn_processes_lock);
}

int sn_process_lock_handle(struct sn_process **out, const sn_process *handle)
{
	struct sn_process *process = *out = sn_handle_object(handle);

	if (!handle)
		return -EINVAL;
	sn_lock(&sn_processes_lock);
	if (process->has_handle && sn_handle_fits(handle, process->generation))
		return 0;
	sn_unlock(&sn_processes_lock);
	return -ESRCH;
}

/* Takes the status of programs that ran when their run ended, and have ended since. */
static void take_left(void)
{
	struct sn_process **link = &left, *process;

	sn_lock(&sn_processes_lock);
	while ((process = *link)) {
		if (sn_process_take_status(process)) {
			*link = process->next;
			dispose(process);
		} else {
			link = &process->next;
		}
	}
	sn_unlock(&sn_processes_lock);
}

/* ---- starting ---- */

/* The keeper's function. */
static int keep(void *arg)
{
	struct sn_process *process = arg;

	/* The starter never leaves this waiting. Without a deadline, and masked, the wait cannot
	 * fail. */
	sn_cancel_mask();
	(void)!sn_waitgroup_wait(&process->started);
	sn_cancel_unmask();
	if (process->runs)
		sn_process_keep(process);
	sn_waitgroup_done(&process->ended);
	release(process);
	return 0;
}

static int spawn_keeper(struct sn_process *process)
{
	const struct sn_task_attr attr = SN_TASK_ATTR_INIT(.name = "process");
	int err;

	sn_waitgroup_add(&process->started, 1);
	sn_waitgroup_add(&process->ended, 1);
	process->users++;
	if (process->in_scope)
		err = sn_scope_spawn(sn_scope_current(), keep, process, &attr);
	else
		err = sn_spawn(NULL, keep, process, &attr);
	if (err < 0)
		process->users--;
	return err;
}

/* Makes the parent's ends streams. */
static int adopt(struct sn_process *process, const int ours[3])
{
	for (int number = 0; number < 3; number++) {
		const int fd = process->ends[number];
		int err;

		for (int other = 0; other < number; other++)
			if (ours[number] >= 0 && ours[other] == ours[number]) {
				process->streams[number] = process->streams[other];
				process->lives[number] = process->lives[other];
			}
		if (fd < 0)
			continue;
		err = sn_stream_adopt(&process->streams[number], fd);
		if (err < 0)
			return err;
		process->ends[number] = -1;
		process->lives[number] = sn_conn_life(process->streams[number]);
	}
	return 0;
}

static void free_launch(struct sn_launch *launch)
{
	if (launch)
		sn_launch_release(launch);
	free(launch);
}

/* Gives the record what was prepared, and the parent's ends, each once. Returns false if the run
 * has ended. */
static bool hand_over(struct sn_process *process, uint32_t generation, struct sn_launch *launch,
		      const struct sn_process_attr *attr)
{
	bool current;

	sn_lock(&sn_processes_lock);
	current = is_current(process, generation);
	if (current) {
		process->launch = launch;
		sn_launch_take_ours(launch, process->ends);
		process->in_scope = attr->flags & SN_PROCESS_IN_SCOPE;
		process->leads_group = launch->child.leads_group;
		process->grace = attr->grace;
	}
	sn_unlock(&sn_processes_lock);
	return current;
}

/* Takes what was prepared. From then on the caller owns it; if it loads the program, the record is
 * not put away until it has. Returns NULL if the run has ended. */
static struct sn_launch *take_launch(struct sn_process *process, uint32_t generation, bool loads)
{
	struct sn_launch *launch = NULL;

	sn_lock(&sn_processes_lock);
	if (is_current(process, generation)) {
		launch = process->launch;
		process->launch = NULL;
		process->loads = loads;
	}
	sn_unlock(&sn_processes_lock);
	return launch;
}

struct load {
	struct sn_child *child;
	pid_t pid; /* the result */
	int pidfd;
};

static void load_program(void *arg)
{
	struct load *load = arg;

	load->pid = sn_child_start(load->child, &load->pidfd);
}

/* Writes the result into the record, and does what sn_processes_end() could not if the run has
 * ended during the load. */
static void end_load(struct sn_process *process, const struct load *load)
{
	sn_lock(&sn_processes_lock);
	process->loads = false;
	if (load->pid > 0) {
		/* Without a pidfd the keeper looks at intervals whether the program has ended. */
		process->pid = load->pid;
		process->pidfd = load->pidfd;
		process->polls = load->pidfd < 0;
		process->runs = true;
	}
	if (process->users == 0)
		put_away(process);
	sn_unlock(&sn_processes_lock);
}

/*
 * Loads the program, in a blocking bracket. The run may end during that, and then the end of the
 * bracket does not return. Therefore nothing is left for after it: the program is in the record,
 * and what was prepared is closed.
 */
static int load_now(struct sn_process *process, uint32_t generation)
{
	struct sn_launch *launch = take_launch(process, generation, true);
	struct load load;

	if (!launch)
		return -ECANCELED;
	load.child = &launch->child;
	sn_collector_call_without_signals(load_program, &load);
	if (load.pid > 0)
		load.pidfd = sn_above_standard(load.pidfd);
	free_launch(launch);
	end_load(process, &load);
	return load.pid < 0 ? load.pid : 0;
}

/* Starts the program, once there is a keeper. The keeper begins its work in any case, also if no
 * program was started. */
static int run(struct sn_process *process, uint32_t generation)
{
	int err;

	sn_enter_blocking_as("starting a program");
	err = load_now(process, generation);
	sn_exit_blocking();
	sn_waitgroup_done(&process->started);
	return err;
}

static void close_ends(struct sn_process *process)
{
	sn_lock(&sn_processes_lock);
	close_raw(process);
	sn_unlock(&sn_processes_lock);
	for (int number = 0; number < 3; number++)
		sn_conn_close_life(process->streams[number], process->lives[number]);
}

static int launch_prepared(struct sn_process *process, uint32_t generation, const int ours[3],
			   bool raw)
{
	int err = raw ? 0 : adopt(process, ours);

	if (err == 0)
		err = spawn_keeper(process);
	if (err == 0)
		err = run(process, generation);
	if (err < 0) {
		free_launch(take_launch(process, generation, false));
		close_ends(process);
	}
	return err;
}

/* Prepares a program, and gives that to the record. Stores the numbers of the parent's ends. */
static int prepare(struct sn_process *process, uint32_t generation, const char *const argv[],
		   const struct sn_process_attr *attr, int ours[3])
{
	struct sn_launch *launch = malloc(sizeof *launch);
	int err = launch ? sn_launch_prepare(launch, argv, attr) : -ENOMEM;

	if (err < 0) {
		free(launch);
		return err;
	}
	memcpy(ours, launch->ours, sizeof launch->ours);
	if (hand_over(process, generation, launch, attr))
		return 0;
	sn_launch_close(launch);
	free(launch);
	sn_yield(); /* the run has ended, so this does not return */
	return -ECANCELED;
}

static int launch_now(sn_process **out, const char *const argv[],
		      const struct sn_process_attr *attr, bool raw)
{
	struct sn_process *process;
	uint32_t generation;
	int ours[3], err;

	take_left();
	process = create();
	if (!process)
		return -ENOMEM;
	generation = process->generation;
	err = prepare(process, generation, argv, attr, ours);
	if (err == 0)
		err = launch_prepared(process, generation, ours, raw);
	if (err < 0) {
		release(process);
		return err;
	}
	/* The starter's use becomes that of the handle. */
	sn_lock(&sn_processes_lock);
	process->has_handle = true;
	*out = sn_handle_make(process, process->generation);
	sn_unlock(&sn_processes_lock);
	return 0;
}

int sn_process_launch(sn_process **out, const char *const argv[],
		      const struct sn_process_attr *attr, bool raw)
{
	bool counted;
	int err;

	if ((attr->flags & SN_PROCESS_IN_SCOPE) && !sn_scope_current())
		return -EINVAL;
	/* A start continues whatever has ended this wait. A task whose scope is cancelled may start
	 * a program, too. */
	counted = sn_semaphore_acquire_until(&starts, sn_now() + START_WAIT_NS) == 0;
	err = launch_now(out, argv, attr, raw);
	if (counted)
		sn_semaphore_release(&starts, 1);
	return err;
}

/* ---- the public calls ---- */

int sn_process_start(sn_process **process, const char *const argv[],
		     const struct sn_process_attr *attr)
{
	struct sn_process_attr own;
	int err = SN_SIZED_TAKE(&own, attr);

	if (!process || !argv || !argv[0])
		return -EINVAL;
	if (err < 0)
		return err;
	if (!sn_self())
		return -ENOTSUP;
	return sn_process_launch(process, argv, &own, false);
}

int sn_process_wait(sn_process *handle, struct sn_process_status *status, int64_t deadline)
{
	struct sn_process *process;
	int err;

	if (!handle)
		return -EINVAL;
	if (!sn_self())
		return -ENOTSUP;
	err = sn_process_lock_handle(&process, handle);
	if (err < 0)
		return err;
	process->users++;
	sn_unlock(&sn_processes_lock);
	err = sn_waitgroup_wait_until(&process->ended, deadline);
	if (err == 0)
		err = process->result;
	if (err == 0 && status)
		*status = process->status;
	release(process);
	return err;
}

sn_stream *sn_process_stream(sn_process *handle, int number)
{
	struct sn_process *process;
	sn_stream *stream;
	uint32_t life;

	if (number < 0 || number > 2 || sn_process_lock_handle(&process, handle) < 0)
		return NULL;
	stream = process->streams[number];
	life = process->lives[number];
	sn_unlock(&sn_processes_lock);
	return stream && sn_conn_life(stream) == life ? stream : NULL;
}

int sn_process_close(sn_process *handle)
{
	struct sn_process *process;
	sn_stream *streams[3];
	uint32_t lives[3];
	int err;

	if (!handle)
		return 0;
	err = sn_process_lock_handle(&process, handle);
	if (err < 0)
		return err;
	memcpy(streams, process->streams, sizeof streams);
	memcpy(lives, process->lives, sizeof lives);
	close_raw(process);
	process->has_handle = false;
	leave(process);
	sn_unlock(&sn_processes_lock);
	for (int number = 0; number < 3; number++)
		sn_conn_close_life(streams[number], lives[number]);
	return 0;
}

/* ---- the parent's ends that are descriptors ---- */

int sn_process_end(sn_process *handle, int number)
{
	struct sn_process *process;
	int fd;

	if (sn_process_lock_handle(&process, handle) < 0)
		return -1;
	fd = process->ends[number];
	sn_unlock(&sn_processes_lock);
	return fd;
}

void sn_process_close_end(sn_process *handle, int number)
{
	struct sn_process *process;
	const int fd = sn_process_end(handle, number);

	if (fd < 0)
		return;
	sn_fd_closing(fd); /* before the close, because this does not return if the run has ended */
	if (sn_process_lock_handle(&process, handle) < 0)
		return;
	close_raw_one(process, number);
	sn_unlock(&sn_processes_lock);
}

/* ---- the end of a run, and fork() ---- */

void sn_processes_end(void)
{
	struct sn_process *process, *next;

	sn_lock(&sn_processes_lock);
	for (process = in_use; process; process = next) {
		next = process->next;
		process->has_handle = false;
		process->users = 0;
		sn_checked_pass(); /* no task is left that could wait for the lock */
		free_launch(process->launch);
		sn_checked_pass_end();
		process->launch = NULL;
		close_raw(process);
		if (!process->loads)
			put_away(process);
	}
	in_use = NULL;
	starts = all_starts;
	sn_unlock(&sn_processes_lock);
}

/* The programs are the parent's. The child of fork() closes its copies of their pidfds immediately,
 * before it can have used the numbers again. */
void sn_processes_fork(enum sn_fork_phase phase)
{
	sn_fork_lock(&sn_processes_lock, phase);
	if (phase != SN_FORK_CHILD)
		return;
	for (struct sn_process *process = in_use; process; process = process->next) {
		process->has_handle = false;
		process->runs = false;
		if (process->pidfd >= 0)
			close(process->pidfd);
		process->pidfd = -1;
	}
	/* Likewise for the programs of a previous run; the memory is lost. */
	for (struct sn_process *process = left; process; process = process->next)
		if (process->pidfd >= 0)
			close(process->pidfd);
	in_use = left = NULL;
	starts = all_starts;
	sn_child_forget_starts();
}
