/* SPDX-License-Identifier: MIT */
/*
 * Call-frame information: for each address of a module's code, where its caller's registers are.
 *
 * Contract. This reads .eh_frame where it lies in memory, found through .eh_frame_hdr; backtrace.c
 * applies the rules that it finds. Async-signal-safe: no heap, no lock, no thread-local. If there
 * are unknown or malformed instructions, it finds no rule. All state is the caller's.
 */
#ifndef SENNIT_DEBUG_CALL_FRAMES_H
#define SENNIT_DEBUG_CALL_FRAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "arch/registers.h"
#include "debug/modules.h"

/* Where a register of the calling function is: with `at`, an offset or the number of a register. */
enum sn_frame_kind {
	SN_SAME,
	SN_AT_CFA,
	SN_IS_CFA_PLUS,
	SN_AT_EXPRESSION,
	SN_IS_EXPRESSION,
	SN_IN_REGISTER,
	SN_UNDEFINED,
};

/* The rules for the step from a return address to its caller. */
struct sn_frame_rule {
	uintptr_t pc; /* 0 in a free place of a table of rules */
	int32_t cfa_offset;
	int8_t cfa_register; /* -1 if an expression gives the CFA */
	bool last;           /* the return address is undefined */
	bool interrupted;    /* a signal trampoline: its caller's pc is exact */
	const uint8_t *cfa_expression;
	struct {
		uint8_t kind;
		int32_t at;
		const uint8_t *expression;
	} registers[SN_REGISTERS];
};

/* Finds the rule for pc, which must be in the function, that is, before the return address. Returns
 * false if there is none. */
bool sn_frame_rule_find(const struct sn_module *module, uintptr_t pc, struct sn_frame_rule *rule);

/* ---- reading numbers, for backtrace.c as well ---- */

static inline uintptr_t sn_uleb(const uint8_t **p)
{
	uintptr_t value = 0;
	unsigned shift = 0;
	uint8_t byte;

	do {
		byte = *(*p)++;
		if (shift < 8 * sizeof value)
			value |= (uintptr_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	return value;
}

static inline intptr_t sn_sleb(const uint8_t **p)
{
	uintptr_t value = 0;
	unsigned shift = 0;
	uint8_t byte;

	do {
		byte = *(*p)++;
		if (shift < 8 * sizeof value)
			value |= (uintptr_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if ((byte & 0x40) && shift < 8 * sizeof value)
		value |= ~(uintptr_t)0 << shift;
	return (intptr_t)value;
}

#define SN_READ(type, p)                                      \
	({                                                    \
		type read_value;                              \
		memcpy(&read_value, *(p), sizeof read_value); \
		*(p) += sizeof read_value;                    \
		read_value;                                   \
	})

#endif
