/* SPDX-License-Identifier: MIT */
#include "debug/call_frames.h"

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

static uintptr_t encoded(const uint8_t **p, uint8_t encoding, uintptr_t data)
{
	uintptr_t at = (uintptr_t)*p, value;

	switch (encoding & PE_FORMAT) {
	case PE_ULEB:
		value = sn_uleb(p);
		break;
	case PE_SLEB:
		value = (uintptr_t)sn_sleb(p);
		break;
	case PE_UDATA2:
		value = SN_READ(uint16_t, p);
		break;
	case PE_SDATA2:
		value = (uintptr_t)(intptr_t)SN_READ(int16_t, p);
		break;
	case PE_UDATA4:
		value = SN_READ(uint32_t, p);
		break;
	case PE_SDATA4:
		value = (uintptr_t)(intptr_t)SN_READ(int32_t, p);
		break;
	case PE_UDATA8:
	case PE_SDATA8:
		value = (uintptr_t)SN_READ(uint64_t, p);
		break;
	default:
		value = SN_READ(uintptr_t, p);
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
	uint8_t pointers; /* the encoding of addresses */
	bool augmented, signal_frame;
	const uint8_t *program, *end;
};

static bool read_cie(const uint8_t *p, struct cie *cie)
{
	uint32_t length = SN_READ(uint32_t, &p);
	const uint8_t *end = p + length;
	const char *augmentation;
	uint8_t version;

	*cie = (struct cie){.end = end};
	if (length == 0xffffffffu || SN_READ(uint32_t, &p) != 0)
		return false;
	version = *p++;
	augmentation = (const char *)p;
	p += strlen(augmentation) + 1;
	if (version != 1 && version != 3)
		return false;
	cie->code_align = sn_uleb(&p);
	cie->data_align = sn_sleb(&p);
	cie->return_register = version == 1 ? *p++ : sn_uleb(&p);
	if (*augmentation == 'z') {
		uintptr_t size = sn_uleb(&p);

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
				break; /* the rest is unknown, and can be skipped */
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

		if (data + (uintptr_t)(intptr_t)SN_READ(int32_t, &entry) <= pc) {
			low += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	if (low == 0)
		return NULL;
	p += (low - 1) * 8 + 4;
	return (const uint8_t *)(data + (uintptr_t)(intptr_t)SN_READ(int32_t, &p));
}

/* A program of call-frame instructions, while it is executed. */
struct program {
	const struct cie *cie;
	const uint8_t *p;
	uintptr_t at; /* the address for which the rules hold so far */
	struct sn_frame_rule *rule;
	const struct sn_frame_rule *first; /* the rules that "restore" restores, or NULL */
	struct sn_frame_rule saved[4];
	int depth;
};

static void set_rule(struct program *g, uintptr_t reg, int kind, intptr_t at)
{
	if (reg < SN_REGISTERS) {
		g->rule->registers[reg].kind = kind;
		g->rule->registers[reg].at = (int32_t)at;
	}
}

static void restore_rule(struct program *g, uintptr_t reg)
{
	if (g->first && reg < SN_REGISTERS)
		g->rule->registers[reg] = g->first->registers[reg];
}

/* Skips an expression and its length, which precedes it. Returns the address of the length. */
static const uint8_t *take_expression(struct program *g)
{
	const uint8_t *expression = g->p;
	uintptr_t length = sn_uleb(&g->p);

	g->p += length;
	return expression;
}

static void set_expression(struct program *g, uintptr_t reg, int kind)
{
	const uint8_t *expression = take_expression(g);

	if (reg < SN_REGISTERS) {
		g->rule->registers[reg].kind = kind;
		g->rule->registers[reg].expression = expression;
	}
}

/* Executes one of the three instructions that have their operand in the code itself. */
static bool step_packed(struct program *g, uint8_t op)
{
	uint8_t low = op & 0x3f;

	switch (op & 0xc0) {
	case 0x40: /* advance_loc */
		g->at += low * g->cie->code_align;
		return true;
	case 0x80: /* offset */
		set_rule(g, low, SN_AT_CFA, (intptr_t)sn_uleb(&g->p) * g->cie->data_align);
		return true;
	case 0xc0: /* restore */
		restore_rule(g, low);
		return true;
	}
	return false;
}

/* Executes instructions that move to another address, or have no effect on the rules. */
static bool step_location(struct program *g, uint8_t op)
{
	switch (op) {
	case 0x00: /* nop */
	case 0x2d: /* AArch64: the return address is signed from here on, or no longer */
		return true;
	case 0x01: /* set_loc */
		g->at = encoded(&g->p, g->cie->pointers, 0);
		return true;
	case 0x02: /* advance_loc1, 2, 4 */
		g->at += *g->p++ * g->cie->code_align;
		return true;
	case 0x03:
		g->at += SN_READ(uint16_t, &g->p) * g->cie->code_align;
		return true;
	case 0x04:
		g->at += SN_READ(uint32_t, &g->p) * g->cie->code_align;
		return true;
	case 0x2e: /* GNU_args_size */
		sn_uleb(&g->p);
		return true;
	}
	return false;
}

/* Executes instructions that say where the canonical frame address (CFA) is. */
static bool step_cfa(struct program *g, uint8_t op)
{
	struct sn_frame_rule *rule = g->rule;

	switch (op) {
	case 0x0c: /* def_cfa */
		rule->cfa_register = (int8_t)sn_uleb(&g->p);
		rule->cfa_offset = (int32_t)sn_uleb(&g->p);
		return true;
	case 0x0d: /* def_cfa_register */
		rule->cfa_register = (int8_t)sn_uleb(&g->p);
		return true;
	case 0x0e: /* def_cfa_offset */
		rule->cfa_offset = (int32_t)sn_uleb(&g->p);
		return true;
	case 0x0f: /* def_cfa_expression */
		rule->cfa_register = -1;
		rule->cfa_expression = take_expression(g);
		return true;
	case 0x12: /* def_cfa_sf */
		rule->cfa_register = (int8_t)sn_uleb(&g->p);
		rule->cfa_offset = (int32_t)(sn_sleb(&g->p) * g->cie->data_align);
		return true;
	case 0x13: /* def_cfa_offset_sf */
		rule->cfa_offset = (int32_t)(sn_sleb(&g->p) * g->cie->data_align);
		return true;
	}
	return false;
}

static bool names_register(uint8_t op)
{
	return (op >= 0x05 && op <= 0x09) || op == 0x10 || op == 0x11 || op == 0x14 || op == 0x16;
}

/* Executes instructions that say where a register is; its number is the first operand of each. */
static bool step_register(struct program *g, uint8_t op)
{
	uintptr_t reg;

	if (!names_register(op))
		return false;
	reg = sn_uleb(&g->p);
	switch (op) {
	case 0x05: /* offset_extended */
		set_rule(g, reg, SN_AT_CFA, (intptr_t)sn_uleb(&g->p) * g->cie->data_align);
		break;
	case 0x06: /* restore_extended */
		restore_rule(g, reg);
		break;
	case 0x07: /* undefined */
		set_rule(g, reg, SN_UNDEFINED, 0);
		break;
	case 0x08: /* same_value */
		set_rule(g, reg, SN_SAME, 0);
		break;
	case 0x09: /* register */
		set_rule(g, reg, SN_IN_REGISTER, (intptr_t)sn_uleb(&g->p));
		break;
	case 0x10: /* expression */
	case 0x16: /* val_expression */
		set_expression(g, reg, op == 0x10 ? SN_AT_EXPRESSION : SN_IS_EXPRESSION);
		break;
	case 0x11: /* offset_extended_sf */
		set_rule(g, reg, SN_AT_CFA, sn_sleb(&g->p) * g->cie->data_align);
		break;
	case 0x14: /* val_offset */
		set_rule(g, reg, SN_IS_CFA_PLUS, (intptr_t)sn_uleb(&g->p) * g->cie->data_align);
		break;
	}
	return true;
}

/* Executes instructions that save and restore all rules. */
static bool step_state(struct program *g, uint8_t op)
{
	if (op == 0x0a && g->depth < 4) { /* remember_state */
		g->saved[g->depth++] = *g->rule;
		return true;
	}
	if (op == 0x0b && g->depth > 0) { /* restore_state */
		*g->rule = g->saved[--g->depth];
		return true;
	}
	return false;
}

/* Runs the instructions up to pc. first is NULL while the CIE's rules are set up; then it has these
 * rules, for "restore". */
static bool run(const struct cie *cie, const uint8_t *p, const uint8_t *end, uintptr_t at,
		uintptr_t pc, struct sn_frame_rule *rule, const struct sn_frame_rule *first)
{
	struct program g = {.cie = cie, .p = p, .at = at, .rule = rule, .first = first};

	while (g.p < end && g.at <= pc) {
		uint8_t op = *g.p++;

		if (!step_packed(&g, op) && !step_location(&g, op) && !step_cfa(&g, op) &&
		    !step_state(&g, op) && !step_register(&g, op))
			return false;
	}
	return true;
}

bool sn_frame_rule_find(const struct sn_module *module, uintptr_t pc, struct sn_frame_rule *rule)
{
	const uint8_t *fde = find_fde(module, pc), *p = fde, *end;
	struct sn_frame_rule first;
	uintptr_t begin, size;
	struct cie cie;
	uint32_t back;

	if (!fde)
		return false;
	size = SN_READ(uint32_t, &p);
	end = p + size;
	back = SN_READ(uint32_t, &p);
	if (size == 0xffffffffu || back == 0 || !read_cie(p - 4 - back, &cie))
		return false;
	begin = encoded(&p, cie.pointers, 0);
	size = encoded(&p, cie.pointers & PE_FORMAT, 0);
	if (pc < begin || pc >= begin + size)
		return false;
	if (cie.augmented) {
		uintptr_t skip = sn_uleb(&p);

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
		if (rule->registers[SN_REGISTER_PC].kind == SN_SAME) {
			rule->registers[SN_REGISTER_PC].kind = SN_IN_REGISTER;
			rule->registers[SN_REGISTER_PC].at = (int32_t)cie.return_register;
		}
	}
	rule->last = rule->registers[SN_REGISTER_PC].kind == SN_UNDEFINED;
	rule->interrupted = cie.signal_frame;
	return true;
}
