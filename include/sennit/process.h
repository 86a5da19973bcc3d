/* SPDX-License-Identifier: MIT */
/*
 * Programs that tasks start, talk to and wait for.
 *
 *	sn_process *process;
 *	struct sn_process_status status;
 *	int err = sn_process_start(&process, (const char *[]){"sort", "names", NULL}, NULL);
 *
 *	if (err < 0)
 *		return err;
 *	err = sn_process_wait(process, &status, sn_after(5000000000));
 *	sn_process_close(process);
 *
 * Starting. The program gets what struct sn_process_attr says, and otherwise what this process
 * has: directory, environment, limits, identity, standard descriptors. It gets no other
 * descriptor, whether marked close-on-exec or not. Its signals have their default actions, and
 * none is blocked. What Linux keeps for each thread, such as namespaces and capabilities, is that
 * of the calling task's thread, which a pinned task may have changed (blocking.h). A program that
 * cannot be started is the error of sn_process_start() itself, with the reason of the system call
 * that failed. No code runs in a copy of this process, so pthread_atfork() handlers are not called,
 * and the size of this process does not matter.
 *
 * Whoever shares an open file description shares O_NONBLOCK. A stream's descriptor (stream.h), and
 * any that has the same description, is therefore non-blocking in the program, too, and most
 * programs fail with EAGAIN then. Give the program one that no stream uses, such as the other end
 * of a pipe, or clear the flag when nothing here uses the stream any more except to close it:
 *
 *	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
 *
 * Waiting takes no thread: a small task for each program waits for it through a pidfd. On kernels
 * before 5.3, and wherever pidfds are missing, it looks again and again instead, first after 1 ms
 * and at last every 64 ms. That task also takes the exit status from the kernel as soon as there is
 * one, whether anybody waits or not, so there are no zombies while the run lasts.
 *
 * The end of the scope. With SN_PROCESS_IN_SCOPE a program belongs to the scope that the calling
 * task works in (scope.h): closing the scope waits for the program, and when the scope is cancelled
 * the program gets SIGTERM and, after a grace period, SIGKILL. Without it a program depends on
 * nothing here.
 *
 * Its parent is this process. The kernel ties some things to the thread that has made a child, such
 * as the signal that a program may ask for by PR_SET_PDEATHSIG. They happen when this process ends,
 * not when a thread of the runtime does, because threads that have children stay, asleep, until
 * these have ended, if need be beyond the end of the run. That holds for any child that a task
 * makes, also by fork().
 *
 * The end of the run. When sn_run() returns, programs that are in a scope get SIGKILL; the others
 * continue. Their zombies are removed by the next sn_process_start(), or with this process.
 *
 * Other code that waits for children. waitpid(-1) elsewhere in this process may take the status
 * away, and when SIGCHLD is ignored the kernel discards it. The end of the program is noticed all
 * the same, and sn_process_wait() returns -ECHILD. SIGCHLD is neither caught nor needed here: a
 * handler of the program's own is called as for any child.
 *
 * fork(). In a child all handles of the parent are stale.
 *
 * Threads outside the runtime: sn_process_kill(), sn_process_kill_group(), sn_process_pid(),
 * sn_process_stream(), sn_process_close(), sn_process_result_free(); the others return -ENOTSUP.
 * Signal handlers: none.
 */
#ifndef SENNIT_PROCESS_H
#define SENNIT_PROCESS_H

#include <sennit/base.h>
#include <sennit/stream.h>

SN_BEGIN

/* A program that was started. */
typedef struct sn_process sn_process;

/* What a standard descriptor of the program is. */
enum sn_process_kind {
	SN_PROCESS_INHERIT,    /* this process's own; none if that is closed or close-on-exec */
	SN_PROCESS_NULL,       /* /dev/null */
	SN_PROCESS_PIPE,       /* a pipe, whose other end is sn_process_stream() */
	SN_PROCESS_TERMINAL,   /* a pseudo-terminal; see below */
	SN_PROCESS_DESCRIPTOR, /* a descriptor of this process */
	SN_PROCESS_STDOUT,     /* for err only: the same as out */
};

/*
 * SN_PROCESS_TERMINAL: all descriptors of this kind share one terminal, which is the controlling
 * terminal of a session of the program's own. Its other side is one stream, whichever of their
 * numbers sn_process_stream() is given. Reading from it fails with -EIO once the program, and all
 * that have inherited the terminal, have closed it. It echoes what is written, until the program
 * changes that.
 */
struct sn_process_stdio {
	enum sn_process_kind kind; /* default: inherited */
	int fd;                    /* for SN_PROCESS_DESCRIPTOR; it stays the caller's */
};

/* A descriptor of this process that the program has under a number of its own, above 2. */
struct sn_process_descriptor {
	int fd;     /* here; it stays the caller's */
	int number; /* in the program */
};

/* A resource limit, as setrlimit(2); RLIM_INFINITY is UINT64_MAX here. */
struct sn_process_limit {
	int resource;  /* RLIMIT_NOFILE and so on */
	uint64_t soft; /* in force */
	uint64_t hard; /* up to which the program may raise it */
};

/* In flags. */
#define SN_PROCESS_NO_SEARCH 1u /* the name is a path, also without a slash: PATH is not searched */
#define SN_PROCESS_GROUP 2u     /* leads a process group of its own */
#define SN_PROCESS_SESSION 4u   /* leads a session, hence also a group, without a terminal */
#define SN_PROCESS_IN_SCOPE 8u  /* ends with the scope of the calling task (above) */
#define SN_PROCESS_IGNORED 16u /* signals that this process ignores stay ignored, as for nohup(1) */

/* How a program should differ from the default: SN_PROCESS_ATTR_INIT(). What is not given is zero,
 * which is the default. Nothing is kept after the call. */
struct sn_process_attr {
	/* Set by SN_PROCESS_ATTR_INIT(). */
	size_t size SN_SIZE_OF(struct sn_process_attr);
	/*
	 * What is executed; NULL: argv[0]. A name without a slash is looked for in the PATH of this
	 * process, not in the program's. A relative path counts from the program's directory.
	 */
	const char *program;
	const char *directory; /* NULL: this process's */
	const char *const
		*environment; /* "NAME=value", with a NULL at the end; NULL: that of this process */
	const char *const
		*changes; /* to environment: "NAME=value" sets, "NAME" removes; NULL at the end */
	struct sn_process_stdio in;                      /* its standard input */
	struct sn_process_stdio out;                     /* its standard output */
	struct sn_process_stdio err;                     /* its standard error output */
	const struct sn_process_descriptor *descriptors; /* further ones; NULL: none */
	size_t descriptor_count;                         /* how many of them */
	const struct sn_process_limit *limits;           /* NULL: those of this process */
	size_t limit_count;                              /* how many of them */
	uint32_t flags;                                  /* SN_PROCESS_GROUP and so on */

	/*
	 * With SN_PROCESS_IN_SCOPE: the nanoseconds from SIGTERM to SIGKILL. 0: five seconds;
	 * negative: SIGKILL immediately. If the program leads a group, both signals go to the whole
	 * group, and the processes of the group that are left when the leader has ended get
	 * SIGKILL.
	 */
	int64_t grace;

	uint16_t rows;    /* of the terminal; 0: what the system gives */
	uint16_t columns; /* likewise */
};

/* struct sn_process_attr with its size, and the fields that are given, as .name = value. */
#define SN_PROCESS_ATTR_INIT(...) SN_SIZED_INIT(struct sn_process_attr, __VA_ARGS__)

/* How a program ended, and what it has used, including those of its own children that it has waited
 * for. */
struct sn_process_status {
	int exit_code;         /* 0 to 255; -1 when a signal has ended it */
	int signum;            /* that signal; 0 when it has exited */
	int core_dumped;       /* 1 when there is a core dump */
	int64_t user_ns;       /* CPU time */
	int64_t system_ns;     /* CPU time in the kernel */
	uint64_t max_resident; /* the most memory that was resident, in bytes */
};

/*
 * Starts a program. argv: its arguments from argv[0] on, and a NULL at the end. attr: NULL for
 * the defaults. *process is written only on success; its owner gives it back by
 * sn_process_close(). Blocks the thread until the program has been loaded, as a call of the
 * kernel does (blocking.h). While two others are being loaded it waits for them, for up to a
 * second, so that a burst of starts takes no burst of threads. May park.
 * Errors, after which nothing runs and no descriptor is left open: -ENOENT when there is no such
 * program or directory; -EACCES when it must not be executed; -ENOEXEC when it is not in a
 * format that the kernel knows, such as a script without "#!"; -ETXTBSY when somebody has its file
 * open for writing; -E2BIG for arguments that are too long, and the other errors of execve(2);
 * those of chdir(2), setrlimit(2) and dup2(2); -EAGAIN when there are too many processes; -EMFILE,
 * -ENFILE; -ENOMEM; those of sn_stream_adopt(); -EINVAL for an unknown flag or kind, for a number
 * that is given twice or below 3, for a change without a name, and for SN_PROCESS_IN_SCOPE in a
 * task without a scope; the reason when that scope is cancelled; -ENOTSUP outside a task.
 *
 * A file that was written and closed can be started, also beside other starts, whose children have
 * copies of the descriptor until they have closed them: the call waits for that, for up to a
 * second. It does not wait for children of fork() and the like, nor, after it has been loaded, for
 * a program whose path contains "/fd", such as /proc/self/fd/5: that keeps its copies until then.
 * Other paths, such as symbolic links, cannot lead to a descriptor that the program does not get.
 */
SN_API SN_CHECK_RESULT int sn_process_start(sn_process **process, const char *const argv[],
					    const struct sn_process_attr *attr);

/*
 * This process's end of a standard descriptor (0, 1 or 2) that is a pipe or a terminal; NULL for
 * any other, and once it has been closed. It belongs to the handle, and is closed with it. It may
 * be closed before that, by sn_stream_close(), which is necessary to give the program the end of
 * its input. Any thread; does not park.
 */
SN_API sn_stream *sn_process_stream(sn_process *process, int number);

/*
 * Waits until the program has ended, and stores how in *status unless that is NULL. Any number of
 * tasks may wait, and may wait again later. With a deadline that has passed it only looks. May
 * park. Errors, after which the program runs on: -ETIMEDOUT past the deadline; -ECANCELED or
 * another reason when the calling task's scope is cancelled; -ENOMEM. -ECHILD: it has ended, but
 * other code has taken its status (above). -ESRCH when the handle is stale; -ENOTSUP outside a
 * task.
 */
SN_API SN_CHECK_RESULT int sn_process_wait(sn_process *process, struct sn_process_status *status,
					   int64_t deadline);

/*
 * Sends the program a signal; 0 only asks whether it runs. Never reaches another process that
 * has got its number, unless there are no pidfds and other code takes the status of children.
 * Any thread; does not park. Returns 0; -ESRCH when it has ended, or the handle is stale;
 * -EPERM; -EINVAL.
 */
SN_API int sn_process_kill(sn_process *process, int signum);

/*
 * Sends a signal to the program's process group: the program and what it has started in that group.
 * -EINVAL also for a program that was not started with a group, a session or a terminal of its own;
 * -ESRCH also when the program itself has ended, whatever is left of its group.
 */
SN_API int sn_process_kill_group(sn_process *process, int signum);

/* Its process id, also after it has ended. Any thread; -ESRCH when the handle is stale. */
SN_API pid_t sn_process_pid(sn_process *process);

/*
 * Gives the handle back, and closes the streams that are still open. A program that still runs
 * continues; kill it first if it should not. Waits that have begun continue, too. Any thread; does
 * not park. Returns 0, also for NULL; -ESRCH when the handle is stale.
 */
SN_API int sn_process_close(sn_process *process);

/* What a program has written, and how it ended. */
struct sn_process_result {
	char *out;       /* what it has written to its standard output; a zero follows */
	size_t out_size; /* without that zero */
	char *err;       /* the same of its standard error output */
	size_t err_size; /* without the zero */
	struct sn_process_status status; /* zeros when it was not started */
};

/*
 * Runs a program from beginning to end: gives it the input, collects what it writes, and waits
 * for it. attr, which may be NULL, says the rest: its in and out have to be zero, and its err,
 * when that is not zero, says where errors go instead of being collected. Without input its
 * standard input is empty. limit: the most bytes that are kept of either output; 0: no limit.
 *
 * Returns 0 when the program has ended and its outputs are at their end, so also all that it has
 * started and that still holds them. How it ended is in status: a program that fails is no error
 * here. A program that ends without having read its input is none, either.
 * Errors: -EMSGSIZE beyond the limit; -ETIMEDOUT past the deadline; the reason when the calling
 * task's scope is cancelled; -ENOMEM; -ECHILD (above); those of sn_process_start() and
 * sn_fd_wait_any(). The program has then been killed, with its group if it leads one and has
 * not ended before, and waited for. *result has what was collected until then, and must be freed in
 * any case. May park.
 */
SN_API SN_CHECK_RESULT int sn_process_output(struct sn_process_result *result,
					     const char *const argv[], const void *input,
					     size_t input_size, size_t limit,
					     const struct sn_process_attr *attr, int64_t deadline);

/* Frees what sn_process_output() has collected. Any thread; does nothing with NULL. */
SN_API void sn_process_result_free(struct sn_process_result *result);

SN_END

#endif
