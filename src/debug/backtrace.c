/* SPDX-License-Identifier: MIT */
#include "debug/backtrace.h"

#include <string.h>

#include "debug/ehabi.h"

/* ---- reading call-frame information ---- */

enum {
	PE_FORMAT = 0x0f,
	PE_ULEB = 1,
	PE_UDATA2 = 2,
	PE_UDATA4 = 3,
	PE_UDATA8 = 4,
	PE_SLEB = 9,
	PE_SDATA2 = 0x0a,
	PE_SDATA4 = 0x0b,
	PE_SDATA8 = 0x0c,
	PE_PCREL = 0x10,
	PE_DATAREL = 0x30,
	PE_BASE = 0x70,
	PE_OMIT = 0xff,
};

static uintptr_t uleb(const uint8_t **p)
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

static intptr_t sleb(const uint8_t **p)
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

#define READ(type, p)                                         \
	({                                                    \
		type read_value;                              \
		memcpy(&read_value, *(p), sizeof read_value); \
		*(p) += sizeof read_value;                    \
		read_value;                                   \
	})

static uintptr_t encoded(const uint8_t **p, uint8_t encoding, uintptr_t data)
{
	uintptr_t at = (uintptr_t)*p, value;

	switch (encoding & PE_FORMAT) {
	case PE_ULEB:
		value = uleb(p);
		break;
	case PE_SLEB:
		value = (uintptr_t)sleb(p);
		break;
	case PE_UDATA2:
		value = READ(uint16_t, p);
		break;
	case PE_SDATA2:
		value = (uintptr_t)(intptr_t)READ(int16_t, p);
		break;
	case PE_UDATA4:
		value = READ(uint32_t, p);
		break;
	case PE_SDATA4:
		value = (uintptr_t)(intptr_t)READ(int32_t, p);
		break;
	case PE_UDATA8:
	case PE_SDATA8:
		value = (uintptr_t)READ(uint64_t, p);
		break;
	default:
		value = READ(uintptr_t, p);
	}
	if ((encoding & PE_BASE) == PE_PCREL)
		value += at;
	else if ((encoding & PE_BASE) == PE_DATAREL)
		value += data;
	return value;
}

struct cie {
	uintptr_t code_align;
	intptr_t data_align;
	uintptr_t return_register;
	uint8_t pointers; /* how addresses are encoded */
	bool augmented, signal_frame;
	const uint8_t *program, *end;
};

static bool read_cie(const uint8_t *p, struct cie *cie)
{
	uint32_t length = READ(uint32_t, &p);
	const uint8_t *end = p + length;
	const char *augmentation;
	uint8_t version;

	*cie = (struct cie){.end = end};
	if (length == 0xffffffffu || READ(uint32_t, &p) != 0)
		return false;
	version = *p++;
	augmentation = (const char *)p;
	p += strlen(augmentation) + 1;
	if (version != 1 && version != 3)
		return false;
	cie->code_align = uleb(&p);
	cie->data_align = sleb(&p);
	cie->return_register = version == 1 ? *p++ : uleb(&p);
	if (*augmentation == 'z') {
		uintptr_t size = uleb(&p);

		cie->augmented = true;
		cie->program = p + size;
		for (const char *c = augmentation + 1; *c; c++) {
			if (*c == 'R') {
				cie->pointers = *p++;
			} else if (*c == 'P') {
				uint8_t encoding = *p++;

				encoded(&p, encoding, 0);
			} else if (*c == 'L') {
				p++;
			} else if (*c == 'S') {
				cie->signal_frame = true;
			} else if (*c != 'B') {
				break; /* unknown: its size is known, and its meaning not needed */
			}
		}
	} else if (*augmentation) {
		return false;
	} else {
		cie->program = p;
	}
	return true;
}

/* The description of the function that contains pc, by binary search. */
static const uint8_t *find_fde(const struct sn_module *module, uintptr_t pc)
{
	const uint8_t *p = module->frames;
	uintptr_t data = (uintptr_t)p, count, low = 0;
	uint8_t frames_encoding, count_encoding;

	if (!p || p[0] != 1 || p[3] != (PE_DATAREL | PE_SDATA4) || p[2] == PE_OMIT)
		return NULL;
	frames_encoding = p[1];
	count_encoding = p[2];
	p += 4;
	encoded(&p, frames_encoding, data);
	count = encoded(&p, count_encoding, data);
	while (count > 0) {
		uintptr_t half = count / 2;
		const uint8_t *entry = p + (low + half) * 8;

		if (data + (uintptr_t)(intptr_t)READ(int32_t, &entry) <= pc) {
			low += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	if (low == 0)
		return NULL;
	p += (low - 1) * 8 + 4;
	return (const uint8_t *)(data + (uintptr_t)(intptr_t)READ(int32_t, &p));
}

enum { SAME, AT_CFA, IS_CFA_PLUS, AT_EXPRESSION, IS_EXPRESSION, IN_REGISTER, UNDEFINED };

/* Runs the instructions up to pc. first: the rules that the CIE set up, for restore; NULL while
 * those are set up. */
static bool run(const struct cie *cie, const uint8_t *p, const uint8_t *end, uintptr_t at,
		uintptr_t pc, struct sn_frame_rule *rule, const struct sn_frame_rule *first)
{
	struct sn_frame_rule saved[4];
	int depth = 0;

#define SET(n, k, offset)                                 \
	do {                                              \
		uintptr_t reg_ = (n);                     \
		int32_t at_ = (int32_t)(offset);          \
		if (reg_ < SN_REGISTERS) {                \
			rule->registers[reg_].kind = (k); \
			rule->registers[reg_].at = at_;   \
		}                                         \
	} while (0)

	while (p < end && at <= pc) {
		uint8_t op = *p++, low = op & 0x3f;
		uintptr_t reg;

		switch (op & 0xc0) {
		case 0x40: /* advance_loc */
			at += low * cie->code_align;
			continue;
		case 0x80: /* offset */
			SET(low, AT_CFA, (intptr_t)uleb(&p) * cie->data_align);
			continue;
		case 0xc0: /* restore */
			if (first && low < SN_REGISTERS)
				rule->registers[low] = first->registers[low];
			continue;
		}
		switch (op) {
		case 0x00: /* nop */
			break;
		case 0x01: /* set_loc */
			at = encoded(&p, cie->pointers, 0);
			break;
		case 0x02: /* advance_loc1, 2, 4 */
			at += *p++ * cie->code_align;
			break;
		case 0x03:
			at += READ(uint16_t, &p) * cie->code_align;
			break;
		case 0x04:
			at += READ(uint32_t, &p) * cie->code_align;
			break;
		case 0x05: /* offset_extended */
			reg = uleb(&p);
			SET(reg, AT_CFA, (intptr_t)uleb(&p) * cie->data_align);
			break;
		case 0x06: /* restore_extended */
			reg = uleb(&p);
			if (first && reg < SN_REGISTERS)
				rule->registers[reg] = first->registers[reg];
			break;
		case 0x07: /* undefined */
			SET(uleb(&p), UNDEFINED, 0);
			break;
		case 0x08: /* same_value */
			SET(uleb(&p), SAME, 0);
			break;
		case 0x09: /* register */
			reg = uleb(&p);
			SET(reg, IN_REGISTER, uleb(&p));
			break;
		case 0x0a: /* remember_state */
			if (depth == 4)
				return false;
			saved[depth++] = *rule;
			break;
		case 0x0b: /* restore_state */
			if (depth == 0)
				return false;
			*rule = saved[--depth];
			break;
		case 0x0c: /* def_cfa */
			rule->cfa_register = (int8_t)uleb(&p);
			rule->cfa_offset = (int32_t)uleb(&p);
			break;
		case 0x0d: /* def_cfa_register */
			rule->cfa_register = (int8_t)uleb(&p);
			break;
		case 0x0e: /* def_cfa_offset */
			rule->cfa_offset = (int32_t)uleb(&p);
			break;
		case 0x0f: /* def_cfa_expression */
			rule->cfa_register = -1;
			rule->cfa_expression = p;
			reg = uleb(&p);
			p += reg;
			break;
		case 0x10: /* expression */
		case 0x16: /* val_expression */
			reg = uleb(&p);
			if (reg < SN_REGISTERS) {
				rule->registers[reg].kind =
					op == 0x10 ? AT_EXPRESSION : IS_EXPRESSION;
				rule->registers[reg].expression = p;
			}
			reg = uleb(&p);
			p += reg;
			break;
		case 0x11: /* offset_extended_sf */
			reg = uleb(&p);
			SET(reg, AT_CFA, sleb(&p) * cie->data_align);
			break;
		case 0x12: /* def_cfa_sf */
			rule->cfa_register = (int8_t)uleb(&p);
			rule->cfa_offset = (int32_t)(sleb(&p) * cie->data_align);
			break;
		case 0x13: /* def_cfa_offset_sf */
			rule->cfa_offset = (int32_t)(sleb(&p) * cie->data_align);
			break;
		case 0x14: /* val_offset */
			reg = uleb(&p);
			SET(reg, IS_CFA_PLUS, (intptr_t)uleb(&p) * cie->data_align);
			break;
		case 0x2d: /* AArch64: the return address is signed from here on, or no longer */
			break;
		case 0x2e: /* GNU_args_size */
			uleb(&p);
			break;
		default:
			return false;
		}
	}
	return true;
#undef SET
}

static bool find_rule(const struct sn_module *module, uintptr_t pc, struct sn_frame_rule *rule)
{
	const uint8_t *fde = find_fde(module, pc), *p = fde, *end;
	struct sn_frame_rule first;
	uintptr_t begin, size;
	struct cie cie;
	uint32_t back;

	if (!fde)
		return false;
	size = READ(uint32_t, &p);
	end = p + size;
	back = READ(uint32_t, &p);
	if (size == 0xffffffffu || back == 0 || !read_cie(p - 4 - back, &cie))
		return false;
	begin = encoded(&p, cie.pointers, 0);
	size = encoded(&p, cie.pointers & PE_FORMAT, 0);
	if (pc < begin || pc >= begin + size)
		return false;
	if (cie.augmented) {
		uintptr_t skip = uleb(&p);

		p += skip;
	}
	memset(rule, 0, sizeof *rule);
	if (!run(&cie, cie.program, cie.end, 0, 0, rule, NULL))
		return false;
	first = *rule;
	if (!run(&cie, p, end, begin, pc, rule, &first))
		return false;
	/* This register holds the address at which the caller continues, whatever its number. */
	if (cie.return_register >= SN_REGISTERS)
		return false;
	if (cie.return_register != SN_REGISTER_PC) {
		rule->registers[SN_REGISTER_PC] = rule->registers[cie.return_register];
		if (rule->registers[SN_REGISTER_PC].kind == SAME) {
			rule->registers[SN_REGISTER_PC].kind = IN_REGISTER;
			rule->registers[SN_REGISTER_PC].at = (int32_t)cie.return_register;
		}
	}
	rule->last = rule->registers[SN_REGISTER_PC].kind == UNDEFINED;
	rule->interrupted = cie.signal_frame;
	return true;
}

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

/* The few operations that linkers and C libraries use, for PLTs and signal frames. */
static bool evaluate(const uint8_t *p, const struct sn_registers *registers,
		     const struct bounds *bounds, uintptr_t initial, bool has_initial,
		     uintptr_t *result)
{
	uintptr_t stack[16];
	size_t size = uleb(&p), depth = 0;
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
			stack[depth++] = registers->at[op - 0x70] + (uintptr_t)sleb(&p);
		} else if (op == 0x06 && depth > 0) { /* deref */
			if (!load(bounds, stack[depth - 1], &stack[depth - 1]))
				return false;
		} else if (op == 0x08) { /* const1u */
			stack[depth++] = *p++;
		} else if (op == 0x0a) { /* const2u */
			stack[depth++] = READ(uint16_t, &p);
		} else if (op == 0x23 && depth > 0) { /* plus_uconst */
			stack[depth - 1] += uleb(&p);
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
		case AT_CFA:
			if (!load(bounds, at, &next.at[i]))
				return false;
			break;
		case IS_CFA_PLUS:
			next.at[i] = at;
			break;
		case AT_EXPRESSION:
		case IS_EXPRESSION:
			if (!evaluate(rule->registers[i].expression, registers, bounds, cfa, true,
				      &at))
				return false;
			if (rule->registers[i].kind == IS_EXPRESSION)
				next.at[i] = at;
			else if (!load(bounds, at, &next.at[i]))
				return false;
			break;
		case IN_REGISTER:
			if (rule->registers[i].at < 0 || rule->registers[i].at >= SN_REGISTERS)
				return false;
			next.at[i] = registers->at[rule->registers[i].at];
			break;
		}
	}
#if defined(__aarch64__)
	{
		register uintptr_t lr __asm__("x30") = next.at[SN_REGISTER_PC];

		__asm__("hint #7" : "+r"(lr)); /* removes a signature */
		next.at[SN_REGISTER_PC] = lr;
	}
#endif
	/* Callers are at higher addresses, so this ends the walk whatever the information says. */
	if (next.at[SN_REGISTER_SP] <= registers->at[SN_REGISTER_SP] && !rule->interrupted &&
	    next.at[SN_REGISTER_PC] == registers->at[SN_REGISTER_PC])
		return false;
	*registers = next;
	return true;
}

/* Only one thread uses the table, if there is one. */
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
	if (!module || !find_rule(module, pc, place)) {
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
			/* A further call with these registers must find that there is nothing
			 * more. */
			registers->at[SN_REGISTER_PC] = 0;
			return n;
		}
	}
	return n;
}
