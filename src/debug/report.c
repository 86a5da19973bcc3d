/* SPDX-License-Identifier: MIT */
#include "debug/report.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "debug/backtrace.h"
#include "debug/out.h"
#include "sched/task.h"
#include "wait/checked.h"

/* Of a deep recursion, the first frames show its period, and the last ones show what began it. */
#define FIRST_FRAMES 16
#define LAST_FRAMES 8

/* How long a second report waits for the first. */
#define PATIENCE_MS 5000

/* ---- one at a time ---- */

#define DYING (-1)

static _Atomic pid_t reporter;  /* its tid, 0 if there is none, or DYING */
static _Atomic uint32_t missed; /* reports of stalls that could not be made, and are not said */

/* Only the reporter uses these, and all static variables from here on. */
static struct sn_out out;
static struct sn_modules modules;

static pid_t my_tid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

/* Returns 0 if the calling thread is the reporter now, or who is. This and the store in
 * sn_report_end() order the uses of the static tables by one reporter before those by the next.
 * Both are sequentially consistent: see sn_report_miss(). */
static pid_t become_reporter(pid_t me, int64_t patience)
{
	pid_t other = 0;

	if (atomic_compare_exchange_strong(&reporter, &other, me))
		out = (struct sn_out){.fd = STDERR_FILENO, .patience = patience};
	return other;
}

bool sn_report_begin(int64_t patience)
{
	pid_t me = my_tid(), other;

	for (int ms = 0; ms < PATIENCE_MS; ms++) {
		other = become_reporter(me, patience);
		if (other == 0)
			return true;
		if (other == me)
			return false;
		poll(NULL, 0, 1);
	}
	return false;
}

/* Called by the reporter. Returns false if stderr has no room: then they are not said, and the end
 * of the next report says them. */
static bool put_missed(void)
{
	uint32_t n = out.error ? 0 : atomic_exchange(&missed, 0);

	if (n == 0)
		return !out.error;
	sn_put("sennit: stall: ");
	sn_put_number(n, 10);
	sn_put(" more could not be reported, because another report was being written\n");
	sn_put_flush();
	if (out.error)
		atomic_fetch_add(&missed, n);
	return !out.error;
}

static void put_missed_if_no_reporter(void)
{
	bool room = true;

	while (room && atomic_load(&missed) > 0 &&
	       become_reporter(my_tid(), SN_STDERR_BRIEFLY) == 0) {
		room = put_missed();
		atomic_store(&reporter, 0);
	}
}

void sn_report_end(bool dying)
{
	bool room = put_missed();

	atomic_store(&reporter, dying ? DYING : 0);
	if (room)
		put_missed_if_no_reporter();
}

/* A thread that misses adds to the count, and then looks whether there is a reporter. A reporter
 * first ends, and then looks at the count. At least one of the two sees the other. If stderr has no
 * room, the count stays for the end of the next report. */
void sn_report_miss(void)
{
	atomic_fetch_add(&missed, 1);
	put_missed_if_no_reporter();
}

/* The process may be about to die, and then no other report follows that could say it. This does
 * not wait, because whoever has to read stderr may be the one that holds up the other report. */
void sn_report_refused(const char *signal, const struct sn_task *task)
{
	struct sn_out line = {.fd = STDERR_FILENO};

	sn_out_text(&line, "sennit: ");
	sn_out_text(&line, signal);
	if (task) {
		sn_out_text(&line, " in task ");
		sn_out_number(&line, sn_task_id(task), 10);
		sn_out_text(&line, " \"");
		sn_out_text(&line, sn_task_name(task));
		sn_out_text(&line, "\"");
	}
	sn_out_text(&line, ": no report, because another one has been under way for 5 s\n");
	(void)sn_stderr_write(line.buffer, line.used, NULL);
}

bool sn_report_is_mine(void)
{
	return atomic_load_explicit(&reporter, memory_order_relaxed) == my_tid();
}

void sn_report_reset(void)
{
	atomic_store(&missed, 0);
	atomic_store(&reporter, 0);
}

/* ---- printing ---- */

void sn_put(const char *text)
{
	sn_out_text(&out, text);
}

void sn_put_number(uint64_t value, unsigned base)
{
	sn_out_number(&out, value, base);
}

void sn_put_address(uintptr_t address)
{
	sn_put("0x");
	sn_put_number(address, 16);
}

void sn_put_size(uintptr_t size)
{
	static const char *const units[] = {" bytes", " KiB", " MiB", " GiB"};
	int unit = 0;

	for (; unit < 3 && size >= (uintptr_t)64 << 10; unit++)
		size /= 1024;
	sn_put_number(size, 10);
	sn_put(size == 1 && unit == 0 ? " byte" : units[unit]);
}

void sn_put_task(const struct sn_task *task)
{
	sn_put("task ");
	sn_put_number(sn_task_id(task), 10);
	sn_put(" \"");
	sn_put(sn_task_name(task));
	sn_put("\"");
}

void sn_put_spawned(const void *at, uint64_t by)
{
	sn_out_spawned(&out, &modules, at, by);
}

void sn_put_flush(void)
{
	sn_out_flush(&out);
}

void sn_report_find_modules(void)
{
	sn_modules_find(&modules);
}

/* Static tables, because the frames of a recursion would fill the signal stack. */
void sn_put_backtrace(struct sn_registers *registers, const struct sn_stack *limit)
{
	static uintptr_t first[FIRST_FRAMES], rest[LAST_FRAMES];
	uint64_t count, last = 0, number;
	bool complete;

	count = sn_backtrace(&modules, registers, limit->low, limit->high, true, first,
			     FIRST_FRAMES, &complete);
	for (uint64_t i = 0; i < count; i++)
		sn_out_frame(&out, &modules, i, first[i], i > 0);
	/* Takes one frame at a time, which overwrites the frame LAST_FRAMES before it. */
	for (; !complete && count >= FIRST_FRAMES; last++)
		if (sn_backtrace(&modules, registers, limit->low, limit->high, false,
				 &rest[last % LAST_FRAMES], 1, &complete) == 0)
			break;
	count += last;
	number = last > LAST_FRAMES ? count - LAST_FRAMES : FIRST_FRAMES;
	if (number > FIRST_FRAMES) {
		sn_put("  ... ");
		sn_put_number(number - FIRST_FRAMES, 10);
		sn_put(" more frames ...\n");
	}
	for (; last > 0 && number < count; number++)
		sn_out_frame(&out, &modules, number, rest[(number - FIRST_FRAMES) % LAST_FRAMES],
			     true);
}

#if SENNIT_CHECKED
static void put_checked_backtrace(const void *context, const void *stack_high)
{
	struct sn_registers registers;
	struct sn_stack stack = {0};

	if (!sn_report_begin(SN_STDERR_PATIENCE))
		return;
	sn_registers_interrupted(context, &registers);
	stack.low = (char *)registers.at[SN_REGISTER_SP];
	stack.high = (char *)stack_high;
	sn_report_find_modules();
	sn_put_backtrace(&registers, &stack);
	sn_put_flush();
	sn_report_end(false);
}

__attribute__((constructor)) static void give_to_the_checks(void)
{
	sn_checked_backtrace = put_checked_backtrace;
}
#endif

/* ---- signals ---- */

int sn_catch_instead(int signum, const struct sigaction *action, struct sigaction *before)
{
	struct sigaction current;
	bool ours;

	/* Stored before the handler is installed, because the handler chains to it. */
	if (sigaction(signum, NULL, &current) < 0)
		return -errno;
	ours = (current.sa_flags & SA_SIGINFO) && current.sa_sigaction == action->sa_sigaction;
	if (!ours)
		*before = current;
	if (sigaction(signum, action, NULL) < 0)
		return -errno;
	return ours;
}
