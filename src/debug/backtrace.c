/* SPDX-License-Identifier: MIT */
#include "debug/backtrace.h"

#include <string.h>

#include "debug/ehabi.h"

/* ---- the walk ---- */

struct bounds {
	uintptr_t low, high;
};

/* The address sanitizer poisons red zones in stacks, which must not stop this read. */
#if defined(__clang__) || SN_ASAN || SN_TSAN
__attribute__((no_sanitize("address", "thread")))
#endif
static bool
load(const struct bounds *bounds, uintptr_t at, uintptr_t *value)
{
	if (at < bounds->low || at > bounds->high - sizeof *value || at % sizeof *value)
		return false;
	*value = *(const volatile uintptr_t *)at;
	return true;
}

/* Evaluates an expression. Knows only the few operations that linkers and C libraries use, for PLTs
 * and signal frames. */
static bool evaluate(const uint8_t *p, const struct sn_registers *registers,
		     const struct bounds *bounds, uintptr_t initial, bool has_initial,
		     uintptr_t *result)
{
	uintptr_t stack[16];
	size_t size = sn_uleb(&p), depth = 0;
	const uint8_t *end = p + size;

	if (has_initial)
		stack[depth++] = initial;
	while (p < end) {
		uint8_t op = *p++;

		if (depth >= 15)
			return false;
		if (op >= 0x30 && op < 0x50) { /* lit */
			stack[depth++] = op - 0x30u;
		} else if (op >= 0x70 && op < 0x90) { /* breg */
			if (op - 0x70 >= SN_REGISTERS)
				return false;
			stack[depth++] = registers->at[op - 0x70] + (uintptr_t)sn_sleb(&p);
		} else if (op == 0x06 && depth > 0) { /* deref */
			if (!load(bounds, stack[depth - 1], &stack[depth - 1]))
				return false;
		} else if (op == 0x08) { /* const1u */
			stack[depth++] = *p++;
		} else if (op == 0x0a) { /* const2u */
			stack[depth++] = SN_READ(uint16_t, &p);
		} else if (op == 0x23 && depth > 0) { /* plus_uconst */
			stack[depth - 1] += sn_uleb(&p);
		} else if (depth > 1 && (op == 0x22 || op == 0x1a || op == 0x24 || op == 0x2a)) {
			uintptr_t b = stack[--depth], a = stack[depth - 1];

			stack[depth - 1] = op == 0x22   ? a + b
					   : op == 0x1a ? (a & b)
					   : op == 0x24 ? (b < 8 * sizeof a ? a << b : 0)
							: (uintptr_t)((intptr_t)a >= (intptr_t)b);
		} else {
			return false;
		}
	}
	if (depth == 0)
		return false;
	*result = stack[depth - 1];
	return true;
}

static bool apply(const struct sn_frame_rule *rule, struct sn_registers *registers,
		  const struct bounds *bounds)
{
	struct sn_registers next = *registers;
	uintptr_t cfa;

	if (rule->cfa_register >= 0) {
		if (rule->cfa_register >= SN_REGISTERS)
			return false;
		cfa = registers->at[rule->cfa_register] + (uintptr_t)(intptr_t)rule->cfa_offset;
	} else if (!evaluate(rule->cfa_expression, registers, bounds, 0, false, &cfa)) {
		return false;
	}
	next.at[SN_REGISTER_SP] = cfa;
	for (int i = 0; i < SN_REGISTERS; i++) {
		uintptr_t at = cfa + (uintptr_t)(intptr_t)rule->registers[i].at;

		switch (rule->registers[i].kind) {
		case SN_AT_CFA:
			if (!load(bounds, at, &next.at[i]))
				return false;
			break;
		case SN_IS_CFA_PLUS:
			next.at[i] = at;
			break;
		case SN_AT_EXPRESSION:
		case SN_IS_EXPRESSION:
			if (!evaluate(rule->registers[i].expression, registers, bounds, cfa, true,
				      &at))
				return false;
			if (rule->registers[i].kind == SN_IS_EXPRESSION)
				next.at[i] = at;
			else if (!load(bounds, at, &next.at[i]))
				return false;
			break;
		case SN_IN_REGISTER:
			if (rule->registers[i].at < 0 || rule->registers[i].at >= SN_REGISTERS)
				return false;
			next.at[i] = registers->at[rule->registers[i].at];
			break;
		}
	}
#if defined(__aarch64__)
	{
		register uintptr_t lr __asm__("x30") = next.at[SN_REGISTER_PC];

		__asm__("hint #7" : "+r"(lr)); /* xpaclri: removes a pointer's signature */
		next.at[SN_REGISTER_PC] = lr;
	}
#endif
	/* Callers have higher stack pointers. A step without progress ends the walk, so that it
	 * ends even if the information is wrong. */
	if (next.at[SN_REGISTER_PC] == registers->at[SN_REGISTER_PC] &&
	    (rule->interrupted ? next.at[SN_REGISTER_SP] == registers->at[SN_REGISTER_SP]
			       : next.at[SN_REGISTER_SP] <= registers->at[SN_REGISTER_SP]))
		return false;
	*registers = next;
	return true;
}

/* The rule for an address. Keeps it in the table of rules, if there is one: then only one thread
 * uses these modules. */
static const struct sn_frame_rule *rule_of(struct sn_modules *modules, uintptr_t pc,
					   struct sn_frame_rule *own)
{
	const struct sn_module *module;
	struct sn_frame_rule *place = own;

	if (modules->rules) {
		place = &modules->rules[(pc >> 2) * 2654435761u >> 8 & (SN_FRAME_RULES - 1)];
		if (place->pc == pc)
			return place;
	}
	module = sn_module_of(modules, pc);
	if (!module || !sn_frame_rule_find(module, pc, place)) {
		place->pc = 0;
		return NULL;
	}
	place->pc = pc;
	return place;
}

static enum sn_step step(struct sn_modules *modules, uintptr_t pc, struct sn_registers *registers,
			 const struct bounds *bounds, bool *exact)
{
	struct sn_frame_rule own;
	const struct sn_frame_rule *rule = rule_of(modules, pc, &own);

	if (!rule) {
		const bool interrupted = *exact;

		*exact = false;
		return sn_ehabi_step(sn_module_of(modules, pc), pc, interrupted, registers,
				     bounds->low, bounds->high);
	}
	if (rule->last)
		return SN_STEP_LAST;
	*exact = rule->interrupted;
	return apply(rule, registers, bounds) ? SN_STEP_DONE : SN_STEP_UNKNOWN;
}

size_t sn_backtrace(struct sn_modules *modules, struct sn_registers *registers, const void *low,
		    const void *high, bool exact, uintptr_t *pcs, size_t limit, bool *complete)
{
	const struct bounds bounds = {(uintptr_t)low, (uintptr_t)high};
	size_t n = 0;

	*complete = false;
	while (n < limit) {
		uintptr_t pc = registers->at[SN_REGISTER_PC];

#if defined(__arm__)
		pc &= ~(uintptr_t)1; /* the bit that stands for Thumb */
#endif
		if (pc == 0) {
			*complete = true;
			break;
		}
		pcs[n++] = pc;
		/* A return address may already belong to the next function, when the call was the
		 * last instruction. */
		switch (step(modules, exact ? pc : pc - 1, registers, &bounds, &exact)) {
		case SN_STEP_DONE:
			continue;
		case SN_STEP_LAST:
			*complete = true;
			return n;
		case SN_STEP_UNKNOWN:
			/* Another call with these registers must find no further frame. */
			registers->at[SN_REGISTER_PC] = 0;
			return n;
		}
	}
	return n;
}
