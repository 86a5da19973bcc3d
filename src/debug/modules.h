/* SPDX-License-Identifier: MIT */
/*
 * What is mapped: the program and its libraries, with their tables, and the names of their
 * functions.
 *
 * Contract. Everything here is async-signal-safe (no heap, no lock of sennit's, no thread-local),
 * except sn_modules_find(): it calls dl_iterate_phdr(), which takes the loader's lock, as every
 * unwinder does. All state is the caller's.
 *
 * Names come from the files: from .symtab, which has static functions, too, or else from .dynsym.
 */
#ifndef SENNIT_DEBUG_MODULES_H
#define SENNIT_DEBUG_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sn_frame_rule;

#define SN_MOST_MODULES 128

struct sn_module {
	uintptr_t base, low, high; /* the load bias, and the range of its segments */
	const uint8_t *frames;     /* .eh_frame_hdr, or NULL */
#if defined(__arm__)
	const uint32_t *exidx; /* .ARM.exidx, two words for each function */
	size_t exidx_count;
#endif
	uintptr_t text_low, text_high, text_offset; /* of its first executable segment */
	const uint8_t *build_id;                    /* NULL if it has none */
	size_t build_id_size;
	const char *name; /* the loader's name for it, which is "" for the program */
};

struct sn_modules {
	int count;
	struct sn_module all[SN_MOST_MODULES];
	char program[256];           /* the program's file */
	struct sn_frame_rule *rules; /* SN_FRAME_RULES of them (backtrace.h), zeroed; or NULL */
};

void sn_modules_find(struct sn_modules *modules);
const struct sn_module *sn_module_of(const struct sn_modules *modules, uintptr_t pc);

/* The function at an address. Its name is cut to fit, and "" if it is unknown. */
struct sn_symbol {
	char name[128];
	uintptr_t offset;        /* into the function */
	const char *module;      /* a file's name, or NULL if it is unknown */
	uintptr_t module_offset; /* the address for addr2line */
};
void sn_symbol_of(const struct sn_modules *modules, uintptr_t pc, bool is_return_address,
		  struct sn_symbol *symbol);

#endif
