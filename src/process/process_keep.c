/* SPDX-License-Identifier: MIT */
/*
 * What happens to a program once it runs: how signals are sent to it, how its status is taken, and
 * what its keeper does until then.
 */
#include "process/process.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sennit/clock.h>
#include <sennit/fd.h>
#include <sennit/scope.h>
#include <sennit/task.h>
#include <sennit/timer.h>

#ifndef SYS_pidfd_send_signal
#	define SYS_pidfd_send_signal 424
#endif
#define PIDFD 3 /* P_PIDFD: waitid() by a pidfd, since Linux 5.4 */

#define DEFAULT_GRACE_NS 5000000000

/* Without a pidfd: how often the keeper looks, at first and in the long run. */
#define FIRST_LOOK_NS 1000000
#define LAST_LOOK_NS 64000000

struct sn_lock sn_processes_lock = SN_LOCK_INIT(SN_RANK_PROCESSES);

/* ---- taking the status ---- */

/* The kernel's struct rusage: two times, of seconds and microseconds, and 14 numbers. */
struct usage {
	long user[2], system[2], max_resident, others[13];
};

static int64_t in_ns(const long time[2])
{
	return time[0] * (int64_t)1000000000 + time[1] * (int64_t)1000;
}

static void write_status(struct sn_process *process, const siginfo_t *info,
			 const struct usage *usage)
{
	const bool exited = info->si_code == CLD_EXITED;

	process->status = (struct sn_process_status){
		.exit_code = exited ? info->si_status : -1,
		.signum = exited ? 0 : info->si_status,
		.core_dumped = info->si_code == CLD_DUMPED,
		.user_ns = in_ns(usage->user),
		.system_ns = in_ns(usage->system),
		.max_resident = (uint64_t)usage->max_resident << 10,
	};
}

/* waitid(2) with the resource usage, which the C library's function does not return. Uses the pidfd
 * if possible: other code may have taken the status, and the process number may have been
 * reused. */
static int take_info(const struct sn_process *process, int options, siginfo_t *info,
		     struct usage *usage)
{
	long err = -1;

	memset(info, 0, sizeof *info);
	memset(usage, 0, sizeof *usage);
	options |= WEXITED | WNOHANG;
	errno = EINVAL;
	if (process->pidfd >= 0)
		err = syscall(SYS_waitid, PIDFD, process->pidfd, info, options, usage);
	if (err < 0 && (errno == EINVAL || errno == EBADF))
		err = syscall(SYS_waitid, P_PID, process->pid, info, options, usage);
	return err < 0 ? -errno : 0;
}

bool sn_process_take_status(struct sn_process *process)
{
	siginfo_t info;
	struct usage usage;
	int err = 0;

	if (process->sweeps) {
		/* As long as the leader is a zombie, no other group can have its number. */
		err = take_info(process, WNOWAIT, &info, &usage);
		if (err == 0 && info.si_pid)
			kill(-process->pid, SIGKILL);
	}
	if (err == 0)
		err = take_info(process, 0, &info, &usage);
	if (err == 0 && !info.si_pid)
		return false;
	if (err == 0)
		write_status(process, &info, &usage);
	process->result = err == 0 ? 0 : -ECHILD;
	process->runs = false;
	sn_checked_pass(); /* closing a pidfd does not wait in the kernel */
	if (process->pidfd >= 0)
		close(process->pidfd);
	sn_checked_pass_end();
	process->pidfd = -1;
	return true;
}

static bool has_ended(struct sn_process *process)
{
	bool ended;

	sn_lock(&sn_processes_lock);
	ended = sn_process_take_status(process);
	sn_unlock(&sn_processes_lock);
	return ended;
}

/* ---- signals; the lock is held ---- */

int sn_process_send(const struct sn_process *process, int signum)
{
	if (!process->runs)
		return -ESRCH;
	if (process->pidfd >= 0 &&
	    syscall(SYS_pidfd_send_signal, process->pidfd, signum, NULL, 0) == 0)
		return 0;
	/* EPERM: old profiles of containers refuse what they do not know. If it is the program that
	 * refuses the signal, kill() fails likewise. */
	if (process->pidfd >= 0 && errno != ENOSYS && errno != EBADF && errno != EPERM)
		return -errno;
	return kill(process->pid, signum) < 0 ? -errno : 0;
}

int sn_process_send_group(const struct sn_process *process, int signum)
{
	if (!process->leads_group)
		return -EINVAL;
	if (!process->runs)
		return -ESRCH;
	return kill(-process->pid, signum) < 0 ? -errno : 0;
}

void sn_process_stop(struct sn_process *process, int signum)
{
	process->sweeps = process->leads_group;
	if (process->leads_group)
		sn_process_send_group(process, signum);
	else
		sn_process_send(process, signum);
}

/* ---- the keeper ---- */

static void stop(struct sn_process *process, int signum)
{
	sn_lock(&sn_processes_lock);
	sn_process_stop(process, signum);
	sn_unlock(&sn_processes_lock);
}

/* Waits until it is time to look again. Returns 0, -ETIMEDOUT past the deadline, or the reason if
 * the scope is cancelled. */
static int pause_until(struct sn_process *process, int64_t *interval, int64_t deadline)
{
	int64_t until;
	int n;

	if (!process->polls) {
		n = sn_fd_wait(process->pidfd, POLLIN, deadline);
		if (n > 0) {
			/* If the program has not ended, this kernel cannot wait for a pidfd, so the
			 * keeper looks at intervals from now on. */
			process->polls = !has_ended(process);
			return 0;
		}
		if (sn_cancelled() < 0 || n == -ETIMEDOUT)
			return n;
		process->polls = true;
	}
	if (deadline && sn_now() >= deadline)
		return -ETIMEDOUT;
	until = sn_after(*interval);
	*interval = *interval * 2 > LAST_LOOK_NS ? LAST_LOOK_NS : *interval * 2;
	n = sn_sleep_until(deadline && deadline < until ? deadline : until);
	return n == -ENOMEM ? 0 : n; /* a shortage of memory: looks again after a moment */
}

/* Waits until the program has ended, and takes its status. Returns 0, or an error of
 * pause_until(). */
static int await_end(struct sn_process *process, int64_t deadline)
{
	int64_t interval = FIRST_LOOK_NS;
	int err = 0;

	/* `runs` needs no lock: only the keeper takes the status of a process of the present
	 * run. */
	while (err == 0) {
		if (!process->runs || has_ended(process))
			return 0;
		err = pause_until(process, &interval, deadline);
	}
	return err;
}

/* Ends the program, because the scope has been cancelled. */
static void end_it(struct sn_process *process)
{
	if (process->grace >= 0) {
		const int64_t grace = process->grace ? process->grace : DEFAULT_GRACE_NS;

		stop(process, SIGTERM);
		if (await_end(process, sn_after(grace)) == 0)
			return;
	}
	stop(process, SIGKILL);
	await_end(process, SN_NO_DEADLINE);
}

void sn_process_keep(struct sn_process *process)
{
	if (await_end(process, SN_NO_DEADLINE) == 0)
		return;
	sn_cancel_mask();
	end_it(process);
	sn_cancel_unmask();
}
