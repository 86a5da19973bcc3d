/* SPDX-License-Identifier: MIT */
/*
 * Backtraces from registers, by the call-frame information that is in memory with every program
 * (.eh_frame, found through .eh_frame_hdr), so that code without frame pointers is walked too.
 *
 * Everything here is async-signal-safe but sn_modules_find(), which asks the loader for what is mapped
 * (dl_iterate_phdr() takes its lock, as every unwinder does): no heap, no lock of ours, no thread-local.
 * A walk reads only within the bounds of the stack that it is given, so that a wrong frame ends the walk
 * and not the process. It ends cleanly at a task's entry, sn_arch_task_start, whose return address the
 * information calls undefined.
 *
 * Names come from the files: .symtab, which has static functions too, else .dynsym.
 *
 * Rejected: libgcc's unwinder, which can only begin where it is called; libunwind, which defines
 * libgcc's names over again; frame pointers, which the C library and most programs are built without.
 *
 * 32-bit ARM has tables of another kind (ehabi.h), which hold at calls only: of a task that was
 * interrupted in a prologue the second frame may be missing. There a C program has tables only when it
 * is compiled with -funwind-tables; a walk ends at the first function without.
 */
#ifndef SENNIT_SCHED_BACKTRACE_H
#define SENNIT_SCHED_BACKTRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/registers.h"

#define SN_MOST_MODULES 128

struct sn_module {
	uintptr_t base, low, high; /* load bias; what its segments span */
	const uint8_t *frames;     /* .eh_frame_hdr, NULL: none */
#if defined(__arm__)
	const uint32_t *exidx; /* .ARM.exidx, two words for each function */
	size_t exidx_count;
#endif
	const char *name; /* as the loader has it; the program's is "" */
};

/* What a return address needs for the step to its caller; filled as they are met. */
struct sn_frame_rule {
	uintptr_t pc; /* 0: empty */
	int32_t cfa_offset;
	int8_t cfa_register; /* -1: an expression */
	bool last;           /* the return address is undefined */
	bool interrupted;    /* of a signal's trampoline: its caller's pc is exact */
	const uint8_t *cfa_expression;
	struct {
		uint8_t kind;
		int32_t at;
		const uint8_t *expression;
	} registers[SN_REGISTERS];
};

#define SN_FRAME_RULES 256

struct sn_modules {
	int count;
	struct sn_module all[SN_MOST_MODULES];
	char program[256];           /* its file */
	struct sn_frame_rule *rules; /* SN_FRAME_RULES of them, zeroed; NULL: do without */
};

void sn_modules_find(struct sn_modules *modules);
const struct sn_module *sn_module_of(const struct sn_modules *modules, uintptr_t pc);

/*
 * Writes at most limit return addresses, the registers' pc first, and returns how many. low, high: the
 * stack. registers are those of the last frame afterwards. exact: the first pc is not a return address.
 * *complete: the walk came to the stack's first frame.
 */
size_t sn_backtrace(struct sn_modules *modules, struct sn_registers *registers, const void *low,
		    const void *high, bool exact, uintptr_t *pcs, size_t limit, bool *complete);

/* Where an address lies. name is cut to fit; "" when it is not known. */
struct sn_symbol {
	char name[128];
	uintptr_t offset;        /* into the function */
	const char *module;      /* a file's name, NULL: not known */
	uintptr_t module_offset; /* what addr2line wants */
};
void sn_symbol_of(const struct sn_modules *modules, uintptr_t pc, bool is_return_address,
		  struct sn_symbol *symbol);

#endif
