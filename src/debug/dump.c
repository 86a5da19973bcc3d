/* SPDX-License-Identifier: MIT */
/*
 * The dump of all tasks.
 *
 * A walk over the slabs collects everything, and then all of it is printed. The dump owns the
 * parked and runnable tasks of a slab together (one barrier), walks their stacks, and releases
 * them. The walk of a stack takes a microsecond or two, because the rule for each return address is
 * remembered. Equal backtraces in the same state are counted in one group, found by a hash, except
 * that the innermost frames of parked tasks may differ (first_frame()); the first tasks of each
 * group are recorded individually. The threads of all other tasks walk their own stacks, in a
 * scan's callback. The collected data is in a mapping of the dump's own, because a thread that
 * hangs may hold the heap's lock.
 */
#include "debug/dump.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <sennit/clock.h>
#include <sennit/debug.h>

#include "arch/registers.h"
#include "base/environment.h"
#include "base/fork.h"
#include "base/log.h"
#include "debug/backtrace.h"
#include "debug/out.h"
#include "observe/inspect.h"
#include "observe/scan_ask.h"
#include "observe/scan_own.h"
#include "sched/foreign.h"
#include "sched/runtime.h"
#include "sched/scan.h"
#include "sched/scan_serve.h"
#include "sched/task.h"
#include "stack/stack.h"
#include "task/label.h"
#include "wait/checked.h"

/* Prints a time as "3.204 s" or "17 ms". */
static void out_time(struct sn_out *out, int64_t ns)
{
	uint64_t ms = (uint64_t)ns / 1000000;

	if (ms < 1000) {
		sn_out_number(out, ms, 10);
		sn_out_text(out, " ms");
		return;
	}
	sn_out_number(out, ms / 1000, 10);
	sn_out_text(out, ".");
	for (uint64_t unit = 100; unit > ms % 1000 && unit > 1; unit /= 10)
		sn_out_text(out, "0");
	sn_out_number(out, ms % 1000, 10);
	sn_out_text(out, " s");
}

/* ---- what is collected ---- */

#define MOST_FRAMES 48
#define MOST_GROUPS 4096
/* How many tasks get a line; further tasks are only counted. A line has 160 bytes; those that are
 * not used take no memory. */
#define MOST_LINES (sizeof(void *) == 8 ? 1000000u : 100000u)
#define NAMES 1024

#define ANSWER_NS 100000000

/* How many bytes are shown of a task's labels. They are copied: a reference could be the last one,
 * and the dump would then have to free the set to the heap. */
#define LABELS 64

struct line {
	struct line *next;
	uint64_t id;
	int64_t state_ns;
	const void *waits_in;
	char name[SN_TASK_NAME_MAX + 1];
	char labels[LABELS]; /* ", key=value, key=value" */
};

struct group {
	uint64_t count;
	int64_t least_ns, most_ns;
	struct line *first, *last;
	uint32_t listed;
	uint64_t spawned_by; /* the task that has spawned the first one of the group */
	bool of_several;     /* others were spawned by other tasks */
	enum sn_task_state state;
	const char *waits_for;
	const void *spawned_at;
	/* What the walk of the stack has found. */
	bool whole, exact, silent;
	uint16_t frames;
	uintptr_t pcs[MOST_FRAMES];
};

struct name {
	uintptr_t pc;
	struct sn_symbol symbol;
};

struct dump {
	struct sn_out out;
	struct sn_modules modules;
	uint64_t by_state[SN_TASK_STATUSES], tasks;
	uint64_t left_out; /* tasks for which there were too many groups */
	uint32_t groups_used, lines_used, tasks_listed;
	uint16_t table[2 * MOST_GROUPS]; /* numbers of groups, plus one, by hash */
	uint16_t order[MOST_GROUPS];
	struct sn_frame_rule rules[SN_FRAME_RULES];
	struct name names[NAMES];
	struct group groups[MOST_GROUPS];
	struct line lines[];
};

struct walked {
	uint64_t id;
	uint16_t frames;
	bool whole, exact, done;
	uintptr_t pcs[MOST_FRAMES];
	struct sn_modules *modules;
	char labels[LABELS];
};

/* Copies the labels of a task that does not run. */
static void take_labels(struct walked *walked, const struct sn_task *task)
{
	const struct sn_labels *labels = sn_labels_of(task);
	size_t used = 0;

	for (uint32_t i = 0; labels && i < labels->count; i++) {
		const char *parts[] = {", ", labels->pairs[i].key, "=", labels->pairs[i].value};

		for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++)
			for (const char *c = parts[k]; *c && used < LABELS - 1; c++)
				walked->labels[used++] = *c < ' ' && *c > 0 ? '?' : *c;
	}
	walked->labels[used] = '\0';
}

static void walk(struct walked *walked, struct sn_registers *registers, const void *low,
		 const void *high, bool exact)
{
	bool whole;

	walked->exact = exact;
	walked->frames = (uint16_t)sn_backtrace(walked->modules, registers, low, high, exact,
						walked->pcs, MOST_FRAMES, &whole);
	walked->whole = whole;
	walked->done = true;
}

/*
 * The first frame that is compared. The innermost two of a parked task are sn_park() and the
 * function that it calls; the portable switch has a frame of its own inside that. Compilers make
 * several copies of that call, which would put tasks that wait in one place into several groups.
 */
static int first_frame(const struct group *g)
{
	const int inner = SENNIT_PORTABLE_SWITCH ? 3 : 2;

	return g->state == SN_STATE_PARKED && g->frames > inner ? inner : 0;
}

static uint32_t hash_of(const struct group *g)
{
	uint64_t h = (uint64_t)(uintptr_t)g->spawned_at * 31 + (uint64_t)g->state;

	h = h * 31 + (uintptr_t)g->waits_for;
	for (int i = first_frame(g); i < g->frames; i++)
		h = (h ^ g->pcs[i]) * 0x9e3779b97f4a7c15u;
	return (uint32_t)(h >> 32);
}

static bool same(const struct group *a, const struct group *b)
{
	const int first = first_frame(a);

	return a->state == b->state && a->waits_for == b->waits_for &&
	       a->spawned_at == b->spawned_at && a->frames == b->frames && a->silent == b->silent &&
	       a->exact == b->exact &&
	       memcmp(a->pcs + first, b->pcs + first,
		      (size_t)(a->frames - first) * sizeof a->pcs[0]) == 0;
}

static struct group *group_of(struct dump *dump, const struct sn_task_info *info,
			      const struct walked *walked)
{
	struct group *g = &dump->groups[dump->groups_used];
	uint32_t at;

	if (dump->groups_used == MOST_GROUPS)
		return NULL;
	*g = (struct group){.state = info->state,
			    .waits_for = info->waits_for,
			    .spawned_at = info->spawned_at,
			    .spawned_by = info->spawned_by,
			    .least_ns = INT64_MAX,
			    .whole = walked->whole,
			    .exact = walked->exact,
			    .silent = !walked->done,
			    .frames = walked->frames};
	memcpy(g->pcs, walked->pcs, walked->frames * sizeof g->pcs[0]);
	for (at = hash_of(g) % (2 * MOST_GROUPS); dump->table[at];
	     at = (at + 1) % (2 * MOST_GROUPS)) {
		struct group *other = &dump->groups[dump->table[at] - 1];

		if (same(g, other))
			return other;
	}
	dump->table[at] = (uint16_t)++dump->groups_used;
	return g;
}

static void add(struct dump *dump, const struct sn_task_info *info, const struct walked *walked)
{
	struct group *g = group_of(dump, info, walked);
	struct line *line;

	dump->tasks++;
	dump->by_state[info->state]++;
	if (!g) {
		dump->left_out++;
		return;
	}
	g->count++;
	g->of_several |= g->spawned_by != info->spawned_by;
	if (info->state_ns < g->least_ns)
		g->least_ns = info->state_ns;
	if (info->state_ns > g->most_ns)
		g->most_ns = info->state_ns;
	if (g->listed == dump->tasks_listed || dump->lines_used == MOST_LINES)
		return;
	line = &dump->lines[dump->lines_used++];
	line->id = info->id;
	line->state_ns = info->state_ns;
	line->waits_in = info->waits_in;
	memcpy(line->name, info->name, sizeof line->name);
	memcpy(line->labels, walked->labels, sizeof line->labels);
	if (g->last)
		g->last->next = line;
	else
		g->first = line;
	g->last = line;
	g->listed++;
}

/* A scan's callback. It may run on any thread, so it does not use the table of rules, which several
 * threads cannot share. */
static void walk_other(const struct sn_scan *scan, void *arg)
{
	struct walked *walked = arg;
	struct sn_registers registers;

	if (sn_task_id(scan->task) != walked->id)
		return;
	take_labels(walked, sn_task_of(scan->task));
	memcpy(&registers, scan->registers, sizeof registers);
	walk(walked, &registers, scan->stack_low, scan->stack_high, scan->interrupted);
}

static void collect_owned(struct dump *dump, struct sn_task *task)
{
	struct walked walked = {.modules = &dump->modules};
	struct sn_registers registers;
	struct sn_task_info info;
	bool there = sn_task_describe(task, &info);

	if (there)
		take_labels(&walked, task);
	if (there && !info.stack_saved) {
		/* The task has not begun. */
		walked.pcs[0] = (uintptr_t)task->fn;
		walked.frames = 1;
		walked.exact = walked.whole = walked.done = true;
	} else if (there) {
		sn_registers_saved(info.stack_saved, &registers);
		walk(&walked, &registers, info.stack_saved, info.stack_high, false);
	}
	sn_scan_release(task);
	if (there)
		add(dump, &info, &walked);
}

static void collect_other(struct dump *dump, struct sn_task *task, struct sn_task *me)
{
	struct sn_modules *modules = &dump->modules;
	struct walked walked = {.modules = modules};
	struct sn_registers registers;
	struct sn_task_info info;
	ucontext_t context;

	if (!sn_task_describe(task, &info))
		return;
	walked.id = info.id;
	if (task == me) {
		take_labels(&walked, me);
		if (sn_registers_here(&context)) {
			sn_registers_interrupted(&context, &registers);
			walk(&walked, &registers, info.stack_low, info.stack_high, true);
		}
	} else if (info.state != SN_STATE_ENDED) {
		/* The callback runs while this thread waits, and does not outlast the wait. */
		int err = sn_scan_within(task, walk_other, &walked, ANSWER_NS);

		if (err == -ESRCH && !sn_task_describe(task, &info))
			return;
	}
	add(dump, &info, &walked);
}

static void collect(struct dump *dump, struct sn_task *me)
{
	struct sn_block_slab *slab = NULL;

	while ((slab = sn_block_slab_next(slab)) != NULL) {
		uint64_t owned = sn_scan_hold_slab(slab, SN_BLOCK_SLAB_ALL);

		for (uint64_t left = owned; left; left &= left - 1)
			collect_owned(dump, sn_block_slab_at(slab, __builtin_ctzll(left)));
		for (uint64_t left = SN_BLOCK_SLAB_ALL & ~owned; left; left &= left - 1)
			collect_other(dump, sn_block_slab_at(slab, __builtin_ctzll(left)), me);
	}
}

/* ---- printing ---- */

static const struct sn_symbol *name_of(struct dump *dump, uintptr_t pc, bool is_return_address)
{
	struct name *name = &dump->names[(pc >> 1) * 2654435761u >> 12 & (NAMES - 1)];

	if (name->pc != pc) {
		sn_symbol_of(&dump->modules, pc, is_return_address, &name->symbol);
		name->pc = pc;
	}
	return &name->symbol;
}

static void print_head(struct dump *dump, const struct group *g)
{
	struct sn_out *out = &dump->out;

	sn_out_text(out, "\n");
	sn_out_number(out, g->count, 10);
	sn_out_text(out, g->count == 1 ? " task " : " tasks ");
	sn_out_text(out, sn_status_name((enum sn_task_status)g->state));
	if (g->waits_for) {
		sn_out_text(out, ", waits for ");
		sn_out_text(out, g->waits_for);
	}
	sn_out_text(out, ", for ");
	out_time(out, g->least_ns);
	if (g->most_ns - g->least_ns >= 1000000) {
		sn_out_text(out, " to ");
		out_time(out, g->most_ns);
	}
	if (g->spawned_at) {
		sn_out_text(out, "\n  ");
		sn_out_spawned_at(out, &dump->modules, g->spawned_at);
		if (g->of_several)
			sn_out_text(out, " by several tasks");
		else
			sn_out_spawned_by(out, g->spawned_by);
	}
	sn_out_text(out, "\n");
}

static void print_lines(struct dump *dump, const struct group *g)
{
	struct sn_out *out = &dump->out;

	for (const struct line *line = g->first; line; line = line->next) {
		sn_out_text(out, "  task ");
		sn_out_number(out, line->id, 10);
		sn_out_text(out, " \"");
		sn_out_text(out, line->name[0] ? line->name : "task");
		sn_out_text(out, "\" for ");
		out_time(out, line->state_ns);
		if (line->waits_in) {
			sn_out_text(out, " in ");
			sn_out_address(out, (uintptr_t)line->waits_in);
		}
		sn_out_text(out, line->labels);
		sn_out_text(out, "\n");
	}
	if (g->count > g->listed) {
		sn_out_text(out, "  and ");
		sn_out_number(out, g->count - g->listed, 10);
		sn_out_text(out, " more\n");
	}
}

static void print_group(struct dump *dump, const struct group *g)
{
	struct sn_out *out = &dump->out;

	print_head(dump, g);
	print_lines(dump, g);
	for (int i = 0; i < g->frames; i++) {
		bool is_return_address = i > 0 || !g->exact;

		sn_out_text(out, "  #");
		sn_out_number(out, (uint64_t)i, 10);
		sn_out_text(out, " ");
		sn_out_address(out, g->pcs[i]);
		sn_out_symbol(out, name_of(dump, g->pcs[i], is_return_address));
		sn_out_text(out, "\n");
	}
	if (g->silent && g->state != SN_STATE_ENDED)
		sn_out_text(out, "  (its thread did not answer)\n");
	else if (g->frames == MOST_FRAMES)
		sn_out_text(out, "  ... more frames\n");
	else if (!g->whole && g->frames > 0)
		sn_out_text(out, "  (the next frame is unknown)\n");
}

/* The largest groups first: Shell sort, which needs no memory. */
static void sort(struct dump *dump)
{
	uint16_t *order = dump->order;
	uint32_t n = dump->groups_used;
	const struct group *groups = dump->groups;

	for (uint32_t i = 0; i < n; i++)
		order[i] = (uint16_t)i;
	for (uint32_t gap = n / 2; gap > 0; gap /= 2)
		for (uint32_t i = gap; i < n; i++)
			for (uint32_t k = i;
			     k >= gap && groups[order[k - gap]].count < groups[order[k]].count;
			     k -= gap) {
				uint16_t swap = order[k];

				order[k] = order[k - gap];
				order[k - gap] = swap;
			}
}

static void print(struct dump *dump)
{
	struct sn_out *out = &dump->out;

	sn_out_text(out, "sennit: ");
	sn_out_number(out, dump->tasks, 10);
	sn_out_text(out, dump->tasks == 1 ? " task" : " tasks");
	for (int i = 0; i < SN_TASK_STATUSES; i++)
		if (dump->by_state[i]) {
			sn_out_text(out, ", ");
			sn_out_number(out, dump->by_state[i], 10);
			sn_out_text(out, " ");
			sn_out_text(out, sn_status_name((enum sn_task_status)i));
		}
	sn_out_text(out, "\n");
	sort(dump);
	for (uint32_t i = 0; i < dump->groups_used; i++)
		print_group(dump, &dump->groups[dump->order[i]]);
	if (dump->left_out) {
		sn_out_text(out, "\n");
		sn_out_number(out, dump->left_out, 10);
		sn_out_text(out, " more tasks, each at a different place\n");
	}
	sn_out_text(out, "sennit: end of the dump\n");
	sn_out_flush(out);
}

/* ---- the call ---- */

static _Atomic bool under_way;

/* Held during dl_iterate_phdr() and across fork(): otherwise the loader's lock could stay locked
 * forever in a child. */
static struct sn_lock finding = SN_LOCK_INIT(SN_RANK_DUMP);

void sn_dump_lock_loader(void)
{
	sn_lock(&finding);
	/* Other threads that walk the list hold the loader's lock only briefly, too. A fork has to
	 * wait for that lock in any case. */
	sn_checked_pass();
}

void sn_dump_unlock_loader(void)
{
	sn_checked_pass_end();
	sn_unlock(&finding);
}

void sn_dump_find_modules(struct sn_modules *modules)
{
	sn_dump_lock_loader();
	sn_modules_find(modules);
	sn_dump_unlock_loader();
}

/* The caller is inside (sched/foreign.h), and has left when this returns. */
static int dump_to(int fd, int64_t patience, struct sn_task *me)
{
	size_t size = sizeof(struct dump) + MOST_LINES * sizeof(struct line);
	struct dump *dump = mmap(NULL, size, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	long listed = sn_environment_number("SENNIT_DUMP_TASKS", 0, 1000000, 20);
	int err;

	if (dump == MAP_FAILED) {
		sn_foreign_leave();
		return -ENOMEM;
	}
	dump->out.fd = fd;
	/* A dump may be long, and its reader slow, such as a serial line. */
	dump->out.patience = patience;
	dump->out.each_flush = true;
	dump->tasks_listed = listed < 0 ? 20 : (uint32_t)listed;
	dump->modules.rules = dump->rules;
	sn_dump_find_modules(&dump->modules);
	collect(dump, me);
	/* From here on only the dump's own memory is used, and writing may block. */
	sn_foreign_leave();
	print(dump);
	err = dump->out.error;
	munmap(dump, size);
	return err;
}

/* Inlined, so that the stack of the task that calls sn_dump() has a frame of that name. */
static inline __attribute__((always_inline)) int dump(int fd, int64_t patience)
{
	struct sn_private_lease *lease;
	struct sn_task *me = sn_task_of(sn_self());
	int err;

	if (sn_scan_depth > 0)
		return -EDEADLK;
	err = sn_foreign_enter();
	if (err < 0)
		return err;
	/* As in sn_task_scan(), the thread is outside the runtime, and unknown to it. */
	lease = sn_scan_hide();
	if (atomic_exchange(&under_way, true)) {
		sn_foreign_leave();
		err = -EBUSY;
	} else {
		err = dump_to(fd, patience, me);
		atomic_store(&under_way, false);
	}
	sn_scan_unhide(lease);
	return err;
}

int sn_dump(int fd)
{
	return dump(fd, 0);
}

void sn_dump_before_exit(void)
{
	(void)dump(STDERR_FILENO, SN_STDERR_PATIENCE);
}

void sn_dump_fork(enum sn_fork_phase phase)
{
	sn_fork_lock(&finding, phase);
	if (phase == SN_FORK_CHILD)
		atomic_store(&under_way, false);
}
