/* SPDX-License-Identifier: MIT */
#include "process/process_child.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef CLONE_PIDFD
#	define CLONE_PIDFD 0x1000
#endif
#ifndef SYS_pidfd_open
#	define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#	define SYS_close_range 436
#endif
#define RANGE_CLOEXEC 4u /* CLOSE_RANGE_CLOEXEC */

/* The kernel's set of signals, and its struct sigaction, whose first word is the handler. On every
 * supported architecture, zero is the default action. */
#define SIGNALS 64
#define SIGNAL_SET_SIZE 8
struct kernel_action {
	unsigned long words[8];
};

#define STACK_SIZE ((size_t)32 << 10)
#define STACK_GUARD ((size_t)64 << 10) /* at least a page, whatever the page size */

/* glibc's name for clone(), which no sanitizer intercepts. */
#ifdef __GLIBC__
int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...); // NOLINT: glibc's
#else
#	define __clone clone // NOLINT: as above
#endif

/* A file that is open for writing is tried again at these intervals, for at most this time, like a
 * start that waits for others (process.c). */
#define BUSY_PAUSE_NS 1000000
#define BUSY_NS INT64_C(1000000000)

/* How many starts have a child, or are about to, that may have copies of descriptors that its
 * program does not get. Children that share the memory take themselves out. */
static _Atomic int starts_with_copies;

/* Whether a child has once been seen to share the memory. Any thread may set it. */
static _Atomic bool shares_memory;

_Atomic int sn_child_had_pidfd;

/* ---- in the child ---- */

_Noreturn static void fail(struct sn_child *child, int error)
{
	child->error = error;
	if (child->report >= 0)
		syscall(SYS_write, child->report, &error, sizeof error);
	for (;;)
		syscall(SYS_exit_group, 127);
}

static void check(struct sn_child *child, long result)
{
	if (result < 0)
		fail(child, errno);
}

static bool is_target(const struct sn_child *child, int fd)
{
	for (size_t i = 0; i < child->map_count; i++)
		if (child->maps[i].target == fd)
			return true;
	return false;
}

/* Copies a descriptor to a number above all targets. */
static int move_up(struct sn_child *child, int fd)
{
	const int above = child->maps[child->map_count - 1].target + 1;
	long copy = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, above);

	if (copy < 0 && errno == EINVAL) /* past RLIMIT_NOFILE */
		errno = EMFILE;
	return (int)copy;
}

static void map_one(struct sn_child *child, const struct sn_child_map *map)
{
	long result;

	if (map->source < 0) {
		/* The parent does not pass this descriptor on, so the child must not have it
		 * either. */
		syscall(SYS_close, map->target);
		return;
	}
	if (map->source == map->target)
		result = syscall(SYS_fcntl, map->source, F_SETFD, 0);
	else
		result = syscall(SYS_dup3, map->source, map->target, 0);
	check(child, result);
}

/*
 * Whether fork() and exec() would pass a standard descriptor on. In a process that has closed its
 * own, the number may be unused, or may be that of a close-on-exec descriptor of the runtime or of
 * another library.
 */
static bool is_inherited(int fd)
{
	const long flags = syscall(SYS_fcntl, fd, F_GETFD, 0);

	return flags >= 0 && !(flags & FD_CLOEXEC);
}

/* First moves each source away that is the target of another map. */
static void map_all(struct sn_child *child)
{
	for (size_t i = 0; i < child->map_count; i++) {
		struct sn_child_map *map = &child->maps[i];

		if (map->optional && !is_inherited(map->source))
			map->source = -1;
		if (map->source < 0 || map->source == map->target || !is_target(child, map->source))
			continue;
		map->source = move_up(child, map->source);
		check(child, map->source);
	}
	if (child->report >= 0 && is_target(child, child->report)) {
		child->report = move_up(child, child->report);
		check(child, child->report);
	}
	for (size_t i = 0; i < child->map_count; i++)
		map_one(child, &child->maps[i]);
}

/* ---- the other descriptors ---- */

struct entry { /* the kernel's struct linux_dirent64 */
	uint64_t inode;
	int64_t offset;
	unsigned short size;
	unsigned char type;
	char name[];
};

static int number_of(const char *text)
{
	int n = 0;

	if (*text < '0' || *text > '9')
		return -1;
	for (; *text >= '0' && *text <= '9'; text++)
		n = n * 10 + (*text - '0');
	return n;
}

static bool is_kept(const struct sn_child *child, int fd)
{
	return fd == child->report || is_target(child, fd);
}

static void shut(const struct sn_child *child, int fd)
{
	if (is_kept(child, fd))
		return;
	if (child->leaves_to_execve)
		syscall(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
	else
		syscall(SYS_close, fd);
}

/* For kernels without close_range(), if no descriptor is left to read the list either. */
static void shut_up_to_limit(const struct sn_child *child)
{
	uint64_t limit[2] = {1024, 1024};

	syscall(SYS_prlimit64, 0, 7 /* RLIMIT_NOFILE */, NULL, limit);
	if (limit[0] > 1 << 20)
		limit[0] = 1 << 20;
	for (int fd = 0; fd < (int)limit[0]; fd++)
		shut(child, fd);
}

/* The list is in the order of the numbers, so closing some does not hide others. */
static void shut_listed(const struct sn_child *child)
{
	_Alignas(struct entry) char buf[2048];
	const long list =
		syscall(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long n;

	if (list < 0) {
		shut_up_to_limit(child);
		return;
	}
	while ((n = syscall(SYS_getdents64, list, buf, sizeof buf)) > 0)
		for (long at = 0; at < n;) {
			const struct entry *entry = (const struct entry *)(buf + at);
			const int fd = number_of(entry->name);

			if (fd >= 0 && fd != list)
				shut(child, fd);
			at += entry->size;
		}
	syscall(SYS_close, list);
}

/* The descriptors from first to last. Returns whether the kernel can do that. */
static bool shut_range(const struct sn_child *child, int64_t first, int64_t last)
{
	const unsigned flags = child->leaves_to_execve ? RANGE_CLOEXEC : 0;

	return first > last ||
	       syscall(SYS_close_range, (unsigned)first, (unsigned)last, flags) >= 0;
}

static bool shut_range_but_report(const struct sn_child *child, int64_t first, int64_t last)
{
	const int64_t report = child->report;

	if (report < first || report > last)
		return shut_range(child, first, last);
	return shut_range(child, first, report - 1) && shut_range(child, report + 1, last);
}

/* Closes everything that is not a target, or makes execve() do so. */
static void shut_others(const struct sn_child *child)
{
	int64_t next = 0;
	bool done = true;

	for (size_t i = 0; i < child->map_count && done; i++) {
		done = shut_range_but_report(child, next, child->maps[i].target - 1);
		next = child->maps[i].target + 1;
	}
	if (!done || !shut_range_but_report(child, next, UINT32_MAX))
		shut_listed(child);
}

/* By the child, or by the parent if the child has not done so. */
static void count_out(struct sn_child *child)
{
	if (!child->counted)
		return;
	child->counted = false;
	atomic_fetch_sub(&starts_with_copies, 1);
}

/* ---- the rest ---- */

static void set_signals(const struct sn_child *child)
{
	static const struct kernel_action default_action;
	static const uint64_t none;
	struct kernel_action now;

	for (int signum = 1; signum <= SIGNALS; signum++) {
		if (child->keeps_ignored &&
		    syscall(SYS_rt_sigaction, signum, NULL, &now, SIGNAL_SET_SIZE) == 0 &&
		    now.words[0] == (unsigned long)SIG_IGN)
			continue;
		syscall(SYS_rt_sigaction, signum, &default_action, NULL, SIGNAL_SET_SIZE);
	}
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, SIGNAL_SET_SIZE);
}

static void set_limits(struct sn_child *child)
{
	for (size_t i = 0; i < child->limit_count; i++) {
		const struct sn_process_limit *limit = &child->limits[i];
		const uint64_t values[2] = {limit->soft, limit->hard};

		check(child, syscall(SYS_prlimit64, 0, limit->resource, values, NULL));
	}
}

static int64_t now(void)
{
	long time[2] = {0, 0}; /* the kernel's struct timespec */

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, time);
	return time[0] * INT64_C(1000000000) + time[1];
}

/* execve(), which returns only if it fails. */
static void execute_one(const struct sn_child *child, const char *path)
{
	const long pause[2] = {0, BUSY_PAUSE_NS};
	int64_t give_up = 0;

	for (;;) {
		/* Before the attempt: what others have closed by now is not in its way. */
		const bool alone = atomic_load(&starts_with_copies) == (child->counted ? 1 : 0);

		syscall(SYS_execve, path, child->argv, child->environment);
		if (errno != ETXTBSY || alone)
			return;
		if (give_up == 0)
			give_up = now() + BUSY_NS;
		else if (now() >= give_up)
			return;
		syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, pause, NULL);
	}
}

/* Tries the paths, and returns the errno. Like execvp(3), continues the search after a program that
 * must not be executed (EACCES). */
static int execute(const struct sn_child *child)
{
	int error = ENOENT;

	for (const char *const *path = child->paths; *path; path++) {
		execute_one(child, *path);
		if (errno == EACCES)
			error = EACCES;
		else if (errno != ENOENT && errno != ENOTDIR && errno != ESTALE &&
			 errno != ENODEV && errno != ETIMEDOUT)
			return errno;
		else if (!path[1] && path == child->paths)
			return errno; /* a single path, so its own error is the answer */
	}
	return error;
}

static int child_main(void *arg)
{
	struct sn_child *child = arg;

	child->shares = true;
	if (child->leads_session)
		check(child, syscall(SYS_setsid));
	else if (child->leads_group)
		check(child, syscall(SYS_setpgid, 0, 0));
	map_all(child);
	if (child->terminal >= 0)
		check(child, syscall(SYS_ioctl, child->terminal, TIOCSCTTY, 0));
	if (child->directory) /* which may name a descriptor, too */
		check(child, syscall(SYS_chdir, child->directory));
	shut_others(child);
	if (!child->leaves_to_execve)
		count_out(child);
	set_limits(child);
	set_signals(child);
	fail(child, execute(child));
}

/* ---- in the parent ---- */

/* Returns the process id, or a negative errno. */
static pid_t clone_child(struct sn_child *child, char *stack_top, int *pidfd)
{
	const int flags = CLONE_VM | CLONE_VFORK | SIGCHLD;
	pid_t pid;

	*pidfd = -1;
	pid = __clone(child_main, stack_top, flags | CLONE_PIDFD, child, pidfd);
	if (pid >= 0)
		return pid;
	/* Some emulators do not know CLONE_PIDFD, and return EINVAL. */
	if (errno != EINVAL)
		return -errno;
	pid = __clone(child_main, stack_top, flags, child);
	if (pid < 0)
		return -errno;
	/* The child's number has not been reused, because this process has not taken its status. If
	 * this fails, too, the keeper looks at intervals. */
	*pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	return pid;
}

/* The child's error, once it has executed its program or has failed to do so. */
static int error_of(struct sn_child *child, const int report[2])
{
	int error = 0;
	ssize_t n;

	if (child->shares) {
		atomic_store_explicit(&shares_memory, true, memory_order_relaxed);
		return child->error;
	}
	close(report[1]);
	do {
		n = read(report[0], &error, sizeof error);
	} while (n < 0 && errno == EINTR);
	return n == sizeof error ? error : 0;
}

static pid_t run_child(struct sn_child *child, int *pidfd, char *stack_top, const int report[2])
{
	const uint64_t all = ~(uint64_t)0;
	uint64_t former;
	pid_t pid;
	int error;

	/* Not pthread_sigmask(), which leaves out the signals that the C library keeps for
	 * itself. */
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &former, SIGNAL_SET_SIZE);
	pid = clone_child(child, stack_top, pidfd);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &former, NULL, SIGNAL_SET_SIZE);
	if (pid < 0) {
		if (report[1] >= 0)
			close(report[1]);
		return pid;
	}
	atomic_store_explicit(&sn_child_had_pidfd, *pidfd >= 0 ? 1 : -1, memory_order_relaxed);
	error = error_of(child, report);
	if (child->shares && report[1] >= 0)
		close(report[1]);
	if (error == 0)
		return pid;
	/* The child has ended, or is about to. */
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (*pidfd >= 0)
		close(*pidfd);
	return -error;
}

/* Whether a path may name a descriptor, as /proc/self/fd/5 and /dev/fd/5 do. */
static bool may_name_descriptors(const char *path)
{
	return path && strstr(path, "/fd");
}

/* Before the child exists, which has copies of all descriptors from the beginning. */
static void count_in(struct sn_child *child)
{
	child->leaves_to_execve = may_name_descriptors(child->directory);
	for (const char *const *path = child->paths; *path; path++)
		child->leaves_to_execve |= may_name_descriptors(*path);
	child->counted = true;
	atomic_fetch_add(&starts_with_copies, 1);
}

void sn_child_forget_starts(void)
{
	atomic_store(&starts_with_copies, 0);
}

pid_t sn_child_start(struct sn_child *child, int *pidfd)
{
	const size_t size = STACK_GUARD + STACK_SIZE;
	int report[2] = {-1, -1};
	char *stack;
	pid_t pid;

	child->shares = false;
	child->error = 0;
	if (!atomic_load_explicit(&shares_memory, memory_order_relaxed) &&
	    pipe2(report, O_CLOEXEC) < 0)
		return -errno;
	child->report = report[1];
	stack = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED ||
	    mprotect(stack + STACK_GUARD, STACK_SIZE, PROT_READ | PROT_WRITE) < 0) {
		pid = -ENOMEM;
		if (report[1] >= 0)
			close(report[1]);
	} else {
		count_in(child);
		pid = run_child(child, pidfd, stack + size, report);
		count_out(child);
	}
	if (stack != MAP_FAILED)
		munmap(stack, size);
	if (report[0] >= 0)
		close(report[0]);
	return pid;
}
