/* SPDX-License-Identifier: MIT */
/*
 * Runs in a signal handler, on the alternate stack that every thread of the runtime has (thread.c),
 * in a process that is about to die: only async-signal-safe calls, no heap, no lock of ours. The
 * unwinder is libgcc's, which is linked and not loaded at run time for that reason; it reads the
 * CFI, so frames of code without frame pointers are found too. dladdr() is not async-signal-safe on
 * paper; it takes the loader's lock, which only a crash inside the loader itself would hold. The
 * facts come first, so that they are out whatever happens after.
 */
#include "sched/fault.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "sched/processor.h"
#include "sched/stack.h"
#include "sched/task.h"
#include "sched/thread.h"

/* The first frames show the recursion's period, the last ones who began it. */
#define FIRST_FRAMES 16
#define LAST_FRAMES 8

static struct sigaction former_segv, former_bus, former_stall;
static int stall_signal; /* 0: not caught */

/* ---- printing without the C library's streams ---- */

static void put(const char *text)
{
	size_t n = strlen(text);

	while (n > 0) {
		ssize_t written = write(STDERR_FILENO, text, n);

		if (written < 0 && errno != EINTR)
			return;
		if (written > 0) {
			text += written;
			n -= (size_t)written;
		}
	}
}

static void put_number(uint64_t value, unsigned base)
{
	char digits[24], *at = digits + sizeof digits - 1;

	*at = 0;
	do {
		*--at = "0123456789abcdef"[value % base];
		value /= base;
	} while (value);
	put(at);
}

/* ---- the backtrace ---- */

struct trace {
	uintptr_t fault_pc; /* frames above it are the handler's */
	bool begun;
	uint64_t count;
	uintptr_t last[LAST_FRAMES];
};

static void put_frame(uint64_t number, uintptr_t pc, bool is_return_address)
{
	/* A return address may belong to the next function already when the call was the last
	 * instruction. */
	void *at = (void *)(is_return_address ? pc - 1 : pc);
	Dl_info info;

	put("  #");
	put_number(number, 10);
	put(" 0x");
	put_number(pc, 16);
	if (dladdr(at, &info) && info.dli_fname) {
		if (info.dli_sname) {
			put(" ");
			put(info.dli_sname);
			put("+0x");
			put_number(pc - (uintptr_t)info.dli_saddr, 16);
		}
		put(" (");
		put(info.dli_fname);
		put("+0x");
		put_number(pc - (uintptr_t)info.dli_fbase, 16);
		put(")");
	}
	put("\n");
}

static _Unwind_Reason_Code trace_frame(struct _Unwind_Context *context, void *arg)
{
	struct trace *trace = arg;
	uintptr_t pc = _Unwind_GetIP(context);

	if (!trace->begun && pc != trace->fault_pc)
		return _URC_NO_REASON;
	trace->begun = true;
	if (pc == 0)
		return _URC_END_OF_STACK;
	if (trace->count < FIRST_FRAMES)
		put_frame(trace->count, pc, trace->count > 0);
	trace->last[trace->count % LAST_FRAMES] = pc;
	trace->count++;
	return _URC_NO_REASON;
}

/* Returns how many frames there were. */
static uint64_t put_backtrace(uintptr_t fault_pc)
{
	struct trace trace = {.fault_pc = fault_pc};
	uint64_t from;

	_Unwind_Backtrace(trace_frame, &trace);
	if (trace.count <= FIRST_FRAMES)
		return trace.count;
	from = trace.count - LAST_FRAMES < FIRST_FRAMES ? FIRST_FRAMES : trace.count - LAST_FRAMES;
	if (from > FIRST_FRAMES) {
		put("  ... ");
		put_number(from - FIRST_FRAMES, 10);
		put(" more frames ...\n");
	}
	for (uint64_t i = from; i < trace.count; i++)
		put_frame(i, trace.last[i % LAST_FRAMES], true);
	return trace.count;
}

static uintptr_t fault_pc(const ucontext_t *context)
{
#if defined(__x86_64__)
	return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__i386__)
	return (uintptr_t)context->uc_mcontext.gregs[REG_EIP];
#elif defined(__aarch64__)
	return (uintptr_t)context->uc_mcontext.pc;
#elif defined(__arm__)
	return (uintptr_t)context->uc_mcontext.arm_pc;
#endif
}

/* ---- the handler ---- */

static void put_task(const struct sn_task *task)
{
	put("task ");
	put_number(sn_task_id(task), 10);
	put(" \"");
	put(sn_task_name(task));
	put("\"");
}

static void report(const struct sn_stack *stack, const void *address, const ucontext_t *context)
{
	struct sn_thread *self = sn_thread_self();
	const struct sn_task *owner = sn_stack_task(*stack);

	if (self && self->task == owner) {
		put("sennit: stack overflow in ");
		put_task(owner);
		put(": its ");
		put_number((uint64_t)(stack->high - stack->low) / 1024, 10);
		put(" KiB are used up (sn_task_attr.stack_size sets the size)\n");
	} else {
		put("sennit: the guard below the stack of ");
		put_task(owner);
		put(" was hit at 0x");
		put_number((uintptr_t)address, 16);
		if (self && self->task) {
			put(" by ");
			put_task(self->task);
		}
		put(": a wild pointer\n");
	}
	if (put_backtrace(fault_pc(context)) > 0)
		return;
	put_frame(0, fault_pc(context), false);
#if defined(__arm__)
	/* The EHABI's tables say nothing of a function's prologue, which is where stacks overflow.
	 * There the caller is still in lr. */
	put_frame(1, (uintptr_t)context->uc_mcontext.arm_lr & ~(uintptr_t)1, true);
#endif
}

static void handle_fault(int signum, siginfo_t *info, void *context)
{
	const struct sigaction *former = signum == SIGSEGV ? &former_segv : &former_bus;
	struct sn_stack stack;
	bool in_guard;

	/* si_code > 0: sent by the kernel, so si_addr means something. */
	if (info->si_code > 0 && sn_stack_find(info->si_addr, &stack, &in_guard) && in_guard) {
		report(&stack, info->si_addr, context);
	} else if (former->sa_flags & SA_SIGINFO) {
		former->sa_sigaction(signum, info, context);
		return;
	} else if (former->sa_handler != SIG_DFL && former->sa_handler != SIG_IGN) {
		former->sa_handler(signum);
		return;
	}
	/*
	 * The default action, with the faulting instruction as its cause: it is executed again when
	 * the handler returns. One that was sent by somebody does not come again by itself.
	 */
	signal(signum, SIG_DFL);
	if (info->si_code <= 0)
		raise(signum);
}

/* ---- stalls ---- */

/* On the thread that stalls: nobody else may look at its task. */
static void put_stall(struct sn_thread *self, int64_t stayed, uintptr_t pc)
{
	struct sn__lease *lease = &self->lease;

	put("sennit: stall: ");
	if (lease->inside ||
	    lease->stays != atomic_load_explicit(&self->stall_stay, memory_order_relaxed) ||
	    !self->task) {
		put("one of ");
		put_number((uint64_t)stayed / 1000000, 10);
		put(" ms was over when its thread got the signal\n");
		return;
	}
	put_task(self->task);
	put(" has kept its processor for ");
	put_number((uint64_t)stayed / 1000000, 10);
	put(" ms");
	if (lease->blocking) {
		put(", blocking in ");
		put(*lease->blocking ? lease->blocking : "a bracket");
	}
	put("\n");
	/* The frames of the handler and of the signal's trampoline are left out, as above. */
	put_backtrace(pc);
}

static void handle_stall(int signum, siginfo_t *info, void *context)
{
	struct sn_thread *self = sn_thread_self();
	int64_t stayed = self ? atomic_exchange(&self->stall_asked, 0) : 0;
	int saved = errno;

	if (stayed)
		put_stall(self, stayed, fault_pc(context));
	else if (former_stall.sa_flags & SA_SIGINFO)
		former_stall.sa_sigaction(signum, info, context);
	else if (former_stall.sa_handler != SIG_DFL && former_stall.sa_handler != SIG_IGN)
		former_stall.sa_handler(signum);
	errno = saved;
}

int sn_fault_catch_stalls(void)
{
	struct sigaction action = {.sa_sigaction = handle_stall,
				   .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
	long signum = sn_environment_number("SENNIT_STALL_SIGNAL", 1, SIGRTMAX, SIGURG);

	if (signum < 0)
		return -EINVAL;
	sigemptyset(&action.sa_mask);
	if (sigaction((int)signum, &action, &former_stall) < 0) {
		sn_log("SENNIT_STALL_SIGNAL=%ld: that signal cannot be caught", signum);
		return -EINVAL;
	}
	stall_signal = (int)signum;
	return 0;
}

void sn_fault_report_stall(struct sn_thread *thread, uint32_t stay, int64_t stayed)
{
	atomic_store_explicit(&thread->stall_stay, stay, memory_order_relaxed);
	atomic_store(&thread->stall_asked, stayed);
	pthread_kill(thread->pthread, stall_signal);
}

void sn_fault_install(void)
{
	struct sigaction action = {.sa_sigaction = handle_fault,
				   .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};

	sigemptyset(&action.sa_mask);
	sigaction(SIGSEGV, &action, &former_segv);
	sigaction(SIGBUS, &action, &former_bus);
}

/* Only if the handler is still ours: the program may have installed its own meanwhile. */
static void put_back(int signum, const struct sigaction *former)
{
	struct sigaction current;

	if (sigaction(signum, NULL, &current) == 0 && (current.sa_flags & SA_SIGINFO) &&
	    current.sa_sigaction == handle_fault)
		sigaction(signum, former, NULL);
}

void sn_fault_uninstall(void)
{
	put_back(SIGSEGV, &former_segv);
	put_back(SIGBUS, &former_bus);
	if (stall_signal)
		sigaction(stall_signal, &former_stall, NULL);
	stall_signal = 0;
}
